"""Download of pyspider's public sdist: from the configured package index, or a given file."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

RELEASE = "pyspider-0.3.10"
SHA256 = "0148e5db79e743c8a096d260ae279e77cf4bf28736b593702ef006b9bb471cbb"
PATH_VARIABLE = "PYSPIDER_SDIST"


class SdistError(Exception):
    """The sdist is missing, or is not the one which the edits were written for."""


def unpack(folder: Path) -> Path:
    """Get, check and unpack the sdist below the folder; return its tree."""
    archive = _given() or download(folder)
    check(archive)
    with tarfile.open(archive) as tar:
        # Debian 12's Python has no filters yet.
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)  # noqa: S202 - the hash was checked
    return folder / RELEASE


def check(archive: Path) -> None:
    """Raise SdistError unless the file is exactly the release known here."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SdistError(f"{archive}: sha256 is {found}, expected {SHA256}")


def _given() -> Path | None:
    name = os.environ.get(PATH_VARIABLE)
    if name is None:
        return None
    path = Path(name)
    if not path.is_file():
        raise SdistError(f"{PATH_VARIABLE}={name}: no such file")
    return path


def download(folder: Path) -> Path:
    """Let pip get the sdist into the folder, and return its path."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{RELEASE.replace('-', '==')} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"]
    # Asking an old sdist for its metadata runs setuptools: that of this build, not the newest.
    command += ["--no-deps", "--no-binary=pyspider", "--no-build-isolation"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    done = subprocess.run(command, env=environment(), stdout=sys.stderr)  # noqa: S603 - all ours
    if done.returncode != 0:
        raise SdistError(f"pip could not get {RELEASE}; {PATH_VARIABLE} can name its sdist")
    return folder / f"{RELEASE}.tar.gz"


def environment() -> dict[str, str]:
    """Return the environment for a pip of our own, without what is meant for this build.

    A user's constraint on pyspider concerns what we build, not what we build it from. The other
    variables are how the pip that runs us names our backend; they would mislead the sdist's.
    """
    ours = ("_PYPROJECT_HOOKS_", "PEP517_")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and not name.endswith("_CONSTRAINT")
    }
