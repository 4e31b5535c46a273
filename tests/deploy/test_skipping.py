"""Where there is no engine the suite says so, and fails only in CI."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.deploy.__main__ import NOT_PERMITTED, main


@pytest.fixture(autouse=True)
def without_an_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["deploy"])
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", NOT_PERMITTED)])
def test_it_says_why_it_skips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    assert main() == code
    said = "skipped: no Docker engine answers, and only root may start one\n"
    assert capsys.readouterr().out == said
