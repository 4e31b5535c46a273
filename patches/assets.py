"""Download of the library that the web UI's editor loads, so that it can serve it itself.

CodeMirror comes from npm's public packages, pinned by version and content. Each file is put where
the pages look for it: the paths are those of the public CDNs that pyspider's templates were written
for, below `CDN`.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

CDN = "pyspider/webui/static/cdn"
PATH_VARIABLE = "PYSPIDER_ASSETS"


class AssetsError(Exception):
    """The package cannot be had, or is not the one which is known here."""


VERSION = "5.65.20"
SPEC = f"codemirror@{VERSION}"
ARCHIVE = f"codemirror-{VERSION}.tgz"
INTEGRITY = "sha512-i5dLDDxwkFCbhjvL2pNjShsojoL3XHyDwsGv1jqETUoW+lzpBKKqNTUWgQwVAOa0tUm4BwekT455ujafi8payA=="  # noqa: E501
"""The tarball's content, as lock files write it."""

FOLDER = f"codemirror/{VERSION}"
"""Where the pages expect its files, below `CDN`."""

_PLAIN = (
    "addon/dialog/dialog.css",
    "addon/dialog/dialog.js",
    "addon/lint/lint.css",
    "addon/lint/lint.js",
    "addon/runmode/runmode.js",
    "addon/search/search.js",
    "addon/search/searchcursor.js",
    "addon/selection/active-line.js",
    "mode/css/css.js",
    "mode/htmlmixed/htmlmixed.js",
    "mode/javascript/javascript.js",
    "mode/python/python.js",
    "mode/xml/xml.js",
)
FILES = {
    "LICENSE.txt": "LICENSE",
    "codemirror.min.css": "lib/codemirror.css",
    "codemirror.min.js": "lib/codemirror.js",
    # The plain file where a page asks for the minified one, which the package has not.
    **{name.replace(".", ".min."): name for name in _PLAIN},
}
"""Path that a page asks for, below the folder: file in the package."""


def install(tree: Path, folder: Path) -> None:
    """Write what the pages want below the tree; the folder is for downloads."""
    given = os.environ.get(PATH_VARIABLE)
    if given is None:
        download(folder)
    archive = Path(given or folder, ARCHIVE)
    check(archive)
    unpack(archive, tree / CDN / FOLDER)


def download(folder: Path) -> None:
    """Let npm get the tarball into the folder, from the registry of its own settings.

    Raises:
        AssetsError: there is no npm, or it could not.
    """
    npm = find_npm()
    if npm is None:
        raise AssetsError(f"npm is missing; Debian/Ubuntu: apt install npm. {_OTHERWISE}")
    command = [npm, "pack", "--silent", "--ignore-scripts", SPEC]
    done = subprocess.run(command, cwd=folder, stdout=sys.stderr)  # noqa: S603 - all ours
    if done.returncode != 0:
        raise AssetsError(f"npm could not get {SPEC}; {_REGISTRY}. {_OTHERWISE}")


def find_npm() -> str | None:
    """Return npm's program, from PATH or the environment of this Python; None: there is none."""
    return shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))


_REGISTRY = "behind a mirror set npm's `registry`, in .npmrc or as npm_config_registry"
_OTHERWISE = (
    f"Or let {PATH_VARIABLE} name a folder with the tarballs, which this makes elsewhere:"
    f" npm pack {SPEC}"
)


def check(archive: Path) -> None:
    """Raise AssetsError unless the file is exactly the package known here."""
    if not archive.is_file():
        raise AssetsError(f"{archive}: no such file; get it with: npm pack {SPEC}")
    digest = hashlib.sha512(archive.read_bytes()).digest()
    found = f"sha512-{base64.b64encode(digest).decode()}"
    if found != INTEGRITY:
        raise AssetsError(f"{archive}: integrity is {found}, expected {INTEGRITY}")


def unpack(archive: Path, target: Path) -> None:
    """Write the files that are wanted, and the licence, below the target."""
    with tarfile.open(archive) as tar:
        for path, member in FILES.items():
            content = tar.extractfile(f"package/{member}")
            if content is None:
                raise AssetsError(f"{archive}: {member} is no file")
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(content.read())
