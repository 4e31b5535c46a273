"""Units of systemd as the files in ``deploy/systemd`` describe them."""

import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
COMMON = FOLDER / "pyspider-zk-.service.d" / "common.conf"
FILES = sorted(FOLDER.glob("*.service"))

LISTS = ("RestrictAddressFamilies", "SystemCallFilter")
"""Keys to whose values another assignment adds."""

Assignments = Mapping[str, list[str]]


@dataclass(frozen=True)
class Unit:
    """A service, together with what all have in common, and what differs for it.

    Attributes:
        name: of its file.
        service: the assignments of its section ``[Service]``, by key, in their order.
    """

    name: str
    service: Assignments

    @property
    def command(self) -> list[str]:
        """The words of its command line."""
        (line,) = self.service["ExecStart"]
        return shlex.split(line)

    @property
    def credentials(self) -> dict[str, str]:
        """The files of its credentials by name."""
        pairs = (line.partition(":") for line in self.service["LoadCredential"])
        return {name: file for name, _, file in pairs}

    @property
    def stop_seconds(self) -> float:
        """How long it may take to stop."""
        return float(self.service["TimeoutStopSec"][-1])

    def environment(self, specifiers: Mapping[str, str]) -> dict[str, str]:
        """Return its variables, with these values of specifiers such as ``%d``."""
        words = [word for line in self.service["Environment"] for word in shlex.split(line)]
        pairs = (_replaced(word, specifiers).partition("=") for word in words)
        return {name: value for name, _, value in pairs}


def unit(file: Path) -> Unit:
    """Read a unit. What all have in common comes last, as systemd reads it, and wins."""
    service = _service(file)
    for key, values in _service(COMMON).items():
        service[key] = [*service.get(key, []), *values]
    for different in (FOLDER / f"{file.name}.d").glob("*.conf"):
        assert different.name > COMMON.name  # the order in which systemd reads them
        for key, values in _service(different).items():
            service[key] = [*service[key], *values] if key in LISTS else values
    return Unit(file.name, service)


def _service(file: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    section = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def _replaced(word: str, specifiers: Mapping[str, str]) -> str:
    for specifier, value in specifiers.items():
        word = word.replace(specifier, value)
    return word
