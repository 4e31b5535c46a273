"""Rules about this machine: files that others must not read, secrets, packages. Pure."""

import re
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspider_zk.doctor.findings import Finding, failed, judged, ok, several, warning

_READABLE_BY_OTHERS = 0o007
_WRITABLE_BY_OTHERS = 0o022
SHORTEST = 12  # characters of a password that machines use
FEWEST = 5  # different characters
WELL_KNOWN = frozenset(
    {
        *("admin", "changeme", "default", "guest", "letmein", "password", "root", "secret", "test"),
        *("crawl", "mysql", "postgres", "postgresql", "pyspider", "redis", "zookeeper"),
    }
)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(;)?", re.MULTILINE)
_REMEDY = "install anew, as docs/how-to/install.md says"


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


def secret_findings(secrets: Mapping[str, str]) -> Iterator[Finding]:
    """Judge secrets, given by what they are for; empty ones are none. No finding repeats one."""
    used = {what: secret for what, secret in secrets.items() if secret}
    weak = {what: fault for what, secret in used.items() if (fault := _weakness(secret))}
    for what, fault in weak.items():
        yield warning(f"{what} {fault}", "make another one: `openssl rand -hex 32`")
    if used and not weak:
        yield ok(f"{len(used)} secrets, none of them easily guessed")


def package_findings(lock: str, installed: Mapping[str, str]) -> Iterator[Finding]:
    """Compare a lock file with what is installed.

    Args:
        lock: the text of the file.
        installed: versions by name, in lower case with dashes.
    """
    pins: defaultdict[str, set[str]] = defaultdict(set)
    needed = set()
    for name, version, condition in _PIN.findall(lock):
        pins[canonical(name)].add(version)
        if not condition:
            needed.add(canonical(name))
    missing = sorted(needed - installed.keys())
    other = sorted(
        f"{name} {installed[name]}"
        for name, versions in pins.items()
        if name in installed and installed[name] not in versions
    )
    if missing:
        yield warning(f"{several(missing)} of the lock file is not installed", _REMEDY)
    if other:
        yield warning(f"other versions than those of the lock file: {several(other)}", _REMEDY)
    if not missing and not other:
        yield ok(f"{len(pins)} packages as locked")


def canonical(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _weakness(secret: str) -> str:
    """Return why a secret is easily guessed; empty if it is not."""
    if secret.lower().strip("0123456789!") in WELL_KNOWN:
        return "is a well-known one"
    if len(secret) < SHORTEST:
        return f"has less than {SHORTEST} characters"
    return f"has less than {FEWEST} different characters" if len(set(secret)) < FEWEST else ""
