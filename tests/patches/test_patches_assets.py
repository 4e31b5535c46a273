"""Getting the libraries of the pages, without pyspider."""

import base64
from pathlib import Path

import assets
import pytest

VUE = next(package for package in assets.PACKAGES if package.name == "vue")


@pytest.mark.parametrize("package", assets.PACKAGES, ids=lambda package: package.spec)
def test_every_package_is_pinned_by_its_content(package: assets.Package) -> None:
    kind, _, digest = package.integrity.partition("-")
    assert kind == "sha512"
    assert len(base64.b64decode(digest, validate=True)) == 64


def test_another_content_than_the_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in assets.PACKAGES:
        (tmp_path / package.archive).write_bytes(b"something else")
    monkeypatch.setenv("PYSPIDER_ASSETS", str(tmp_path))
    with pytest.raises(assets.AssetsError, match=r"bootstrap-3\.4\.1\.tgz: integrity is sha512-"):
        assets.install(tmp_path / "tree", tmp_path)
    assert not (tmp_path / "tree").exists()


def test_a_missing_package_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ASSETS", str(tmp_path))
    remedy = r"bootstrap-3\.4\.1\.tgz: no such file; get it with: npm pack bootstrap@3\.4\.1"
    with pytest.raises(assets.AssetsError, match=remedy):
        assets.install(tmp_path / "tree", tmp_path)


def test_without_npm_and_the_internet_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPIDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(assets, "REGISTRY", "http://127.0.0.1:1")
    with pytest.raises(assets.AssetsError, match=r"PYSPIDER_ASSETS can name a folder.* vue@1"):
        assets.install(tmp_path / "tree", tmp_path)


@pytest.mark.slow
def test_without_npm_the_packages_come_from_its_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assets.download(tmp_path)
    for package in assets.PACKAGES:
        assets.check(tmp_path / package.archive, package)
    assets.unpack(tmp_path / VUE.archive, VUE, tmp_path / "vue")
    assert b"Vue.js v1.0.26" in (tmp_path / "vue" / "vue.min.js").read_bytes()
