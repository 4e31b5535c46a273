"""Getting the libraries of the pages, without pyspider."""

import base64
import sys
from pathlib import Path

import assets
import pytest


def test_the_package_is_pinned_by_its_content() -> None:
    kind, _, digest = assets.INTEGRITY.partition("-")
    assert kind == "sha512"
    assert len(base64.b64decode(digest, validate=True)) == 64


def test_another_content_than_the_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / assets.ARCHIVE).write_bytes(b"something else")
    monkeypatch.setenv("PYSPIDER_ASSETS", str(tmp_path))
    with pytest.raises(assets.AssetsError, match=r"codemirror-5\S+ integrity is sha512-"):
        assets.install(tmp_path / "tree", tmp_path)
    assert not (tmp_path / "tree").exists()


def test_a_missing_package_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ASSETS", str(tmp_path))
    remedy = r"codemirror-5\.65\.20\.tgz: no such file; get it with: npm pack codemirror@5\.65\.20"
    with pytest.raises(assets.AssetsError, match=remedy):
        assets.install(tmp_path / "tree", tmp_path)


def test_without_npm_the_remedies_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPIDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(assets.AssetsError, match=r"install npm.* PYSPIDER_ASSETS .* codemirror@5"):
        assets.install(tmp_path / "tree", tmp_path)
    assert not (tmp_path / "tree").exists()


def test_npm_of_the_virtual_environment_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (npm := tmp_path / "npm").touch(mode=0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert assets.find_npm() == str(npm)


@pytest.mark.skipif(assets.find_npm() is None, reason="npm is not installed")
def test_a_registry_that_does_not_answer_is_told_with_npms_own_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(assets.AssetsError, match=r"npm_config_registry.* PYSPIDER_ASSETS "):
        assets.download(tmp_path)
