"""The command ``renderer``, and how many of them ``up`` starts."""

import os

import pytest

from pyspider_zk.cli import commands
from pyspider_zk.errors import MissingService
from pyspider_zk.rendering import chromium
from tests.cli.conftest import Run

NO_PROXY = {"phantomjs_proxy": None}


def test_a_missing_browser_is_named_with_its_remedy(run: Run) -> None:
    result = run("renderer", "--chromium", "/no/chrome")
    assert result.exit_code == MissingService.exit_code
    assert "/no/chrome: Chromium is missing" in result.stderr
    assert "apt install chromium-headless-shell" in result.stderr


def test_without_a_browser_up_starts_no_renderer_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chromium, "PROGRAMS", ())
    assert commands._renderers(NO_PROXY, None) == 0
    assert "No renderer, so tasks with fetch_type='js' fail: Chromium" in capsys.readouterr().err
    assert commands._renderers(NO_PROXY, 0) == 0
    assert commands._renderers({"phantomjs_proxy": "browsers:25555"}, None) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(MissingService, match="Chromium is missing"):
        commands._renderers(NO_PROXY, 1)


def test_with_one_up_starts_a_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "PROGRAMS", ("true",))
    assert "PATH" in os.environ
    assert commands._renderers(NO_PROXY, None) == 1
    assert commands._renderers(NO_PROXY, 3) == 3
