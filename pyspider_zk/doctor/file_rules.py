"""Rules about files that others must not read. Pure."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass

from pyspider_zk.doctor.findings import Finding, failed, judged

_READABLE_BY_OTHERS = 0o007
_WRITABLE_BY_OTHERS = 0o022


@dataclass(frozen=True)
class KeptFile:
    """A file or folder with something secret in it.

    Attributes:
        what: what it is for.
        path: of it.
        mode: as `os.stat` tells it; None: it does not exist.
        uid: of its owner.
    """

    what: str
    path: str
    mode: int | None = None
    uid: int = 0


def file_findings(kept: KeptFile, our_uid: int) -> Iterator[Finding]:
    """Judge who may read or write a file; that of a folder decides for what is in it."""
    told = f"{kept.what}, {kept.path},"
    if kept.mode is None:
        yield failed(f"{told} does not exist", "make it, or correct the setting that names it")
        return
    if kept.uid not in (0, our_uid):
        yield failed(f"{told} belongs to user {kept.uid}", "give it to the user of the processes")
    mode = stat.S_IMODE(kept.mode)
    right = 700 if stat.S_ISDIR(kept.mode) else 600
    yield judged(
        not mode & (_READABLE_BY_OTHERS | _WRITABLE_BY_OTHERS),
        f"{told} is closed to others",
        failed(
            f"{told} can be read or changed by others (mode {mode:03o})",
            f"chmod {right} {kept.path}; if others may have read a secret, make another one",
        ),
    )
