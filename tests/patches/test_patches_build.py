"""The wheel, built by pip as its users build it; needs the package indexes."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import assets
import pytest
import sdist

pytestmark = pytest.mark.slow

PATCHES = Path(sdist.__file__).parent


def pip(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", *arguments]
    settings = {**os.environ, **environment}
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)


def wheel(source: Path, target: Path, *options: str, **environment: str) -> Path:
    done = pip(
        "wheel", "--no-deps", "--wheel-dir", str(target), *options, str(source), **environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("*.whl")
    return built


def contents(path: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with pyspider's sdist, its pages' libraries and all that building needs."""
    folder = tmp_path_factory.mktemp("shelf")
    sdist.download(folder)
    assets.download(folder)
    assert pip("download", "--dest", str(folder), "setuptools>=83").returncode == 0
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(PATCHES, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_an_ordinary_pyspider(built: Path) -> None:
    files = contents(built)
    info = "pyspider-0.3.10+zk.1.dist-info"
    metadata = files[f"{info}/METADATA"].decode()
    assert "\nName: pyspider\nVersion: 0.3.10+zk.1\n" in metadata
    assert "\nRequires-Dist: tornado<7,>=6.5.10\n" in metadata
    assert b"pyspider = pyspider.run:main" in files[f"{info}/entry_points.txt"]
    assert b"Apache License" in files[f"{info}/licenses/LICENSE"]


def test_the_wheel_has_what_is_not_python(built: Path) -> None:
    files = set(contents(built))
    for name in (
        "logging.conf",
        "fetcher/phantomjs_fetcher.js",
        "fetcher/splash_fetcher.lua",
        "webui/static/cdn/codemirror/5.65.20/codemirror.min.js",
        "webui/static/cdn/codemirror/5.65.20/LICENSE.txt",
    ):
        assert f"pyspider/{name}" in files
    assert not [name for name in files if name.endswith(".swp")]


def test_the_wheel_has_no_modules_that_no_driver_of_today_runs(built: Path) -> None:
    databases = {name.split("/")[2] for name in contents(built) if "pyspider/database/" in name}
    assert {"sqlite", "redis", "local", "base", "sqlalchemy", "servers.py"} <= databases
    assert not databases & {"mongodb", "elasticsearch", "mysql"}
    assert "pyspider/database/sqlalchemy/sqlalchemybase.py" not in contents(built)


def test_it_is_built_again_from_given_files_without_a_trace(
    built: Path, shelf: Path, tmp_path: Path
) -> None:
    """Without an index; and the source folder is left as it was."""
    source = tmp_path / "patches"
    shutil.copytree(PATCHES, source, ignore=shutil.ignore_patterns("__pycache__"))
    before = {path for path in source.rglob("*") if path.is_file()}
    given = str(shelf / "pyspider-0.3.10.tar.gz")
    offline = ("--no-index", "--find-links", str(shelf))
    nowhere = {"PATH": "", "https_proxy": "http://127.0.0.1:1", "PYTHONDONTWRITEBYTECODE": "1"}
    files = {"PYSPIDER_SDIST": given, "PYSPIDER_ASSETS": str(shelf)}

    again = wheel(source, tmp_path / "wheel", *offline, **files, **nowhere)

    assert contents(again) == contents(built)
    assert {path for path in source.rglob("*") if path.is_file()} == before


def test_the_sdist_is_fetched_whatever_backend_the_calling_pip_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prefix in ("_PYPROJECT_HOOKS_", "PEP517_"):
        monkeypatch.setenv(f"{prefix}BACKEND_PATH", str(PATCHES))
        monkeypatch.setenv(f"{prefix}BUILD_BACKEND", "backend")

    sdist.check(sdist.download(tmp_path))


def test_an_edit_that_does_not_fit_fails_the_build_by_its_name(shelf: Path, tmp_path: Path) -> None:
    source = tmp_path / "patches"
    shutil.copytree(PATCHES, source)
    with (source / "edits" / "sqlite.py").open("a") as module:
        module.write("\nEDITS += (Edit('pyspider/run.py', 'no such text', '', 'to be seen'),)\n")
    done = pip(
        "wheel", "--no-deps", str(source), PYSPIDER_SDIST=str(shelf / "pyspider-0.3.10.tar.gz")
    )
    assert done.returncode != 0
    error = "pyspider/run.py: 'no such text': expected 1, found 0 (edit: to be seen)"
    assert error in done.stdout + done.stderr
