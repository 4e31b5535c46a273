"""Rules about installed packages: they are those of the lock file. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pyspider_zk.doctor.findings import Finding, ok, several, warning

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(;)?", re.MULTILINE)
_REMEDY = "install anew, as docs/how-to/install.md says"


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
