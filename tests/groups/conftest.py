"""Waiting here ends by watches alone: whoever waits looks by itself once an hour."""

import pytest


@pytest.fixture(autouse=True)
def _no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspider_zk.zookeeper.waiting.LOOK", 3600.0)
