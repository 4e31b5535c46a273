"""PEP 517 backend, which pip calls in this folder to build the patched pyspider.

The tree is made in a temporary folder, so this one may be read-only.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import assets
import sdist
from edits import EDITS, REMOVED
from edits.edit import patch
from setuptools import build_meta  # type: ignore[import-untyped]

HERE = Path(__file__).resolve().parent

Settings = dict[str, Any] | None


class UnsupportedOperation(Exception):
    """What PEP 517 wants a backend to raise for a build which it cannot do."""


def get_requires_for_build_wheel(_: Settings = None) -> list[str]:
    """Name pip itself, to get the sdist with; nothing when the sdist is at hand."""
    return [] if sdist.PATH_VARIABLE in os.environ else ["pip"]


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,  # noqa: ARG001 - PEP 517 wants it
) -> str:
    """Build the patched wheel and return its file name."""
    target = str(Path(wheel_directory).resolve())
    with _patched_tree() as tree, contextlib.chdir(tree):
        wheel: str = build_meta.build_wheel(target, config_settings)
        return wheel


def build_sdist(*_: Any) -> str:
    """Refuse: the sources are pyspider's own sdist plus this folder."""
    raise UnsupportedOperation("only a wheel can be built from the patches folder")


@contextlib.contextmanager
def _patched_tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pyspider-") as temporary:
        tree = sdist.unpack(Path(temporary))
        patch(tree, EDITS)
        _remove(tree, REMOVED)
        shutil.copytree(HERE / "added", tree, dirs_exist_ok=True)
        assets.install(tree, Path(temporary))
        _take_over_metadata(tree)
        yield tree


def _remove(tree: Path, names: Iterable[str]) -> None:
    for name in names:
        path = tree / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _take_over_metadata(tree: Path) -> None:
    for name in ("setup.py", "setup.cfg", "MANIFEST.in"):
        (tree / name).unlink()
    shutil.rmtree(tree / "pyspider.egg-info")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(HERE / name, tree / name)
