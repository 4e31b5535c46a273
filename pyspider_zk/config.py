"""Settings of the cluster: where they come from, what they may be.

Later sources win: defaults, the ``"zookeeper"`` section of config.json, the environment
(``PYSPIDER_ZK_HOSTS``, ``PYSPIDER_ZK_LEASE``, ...), the option ``--zookeeper``. All faults are
reported at once, by name.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyspider_zk.core.ownership import LONGEST_LEASE
from pyspider_zk.core.slots import DEFAULT_SLOTS, MOST_SLOTS
from pyspider_zk.errors import ConfigError

HANG = 30.0  # seconds

ENV_PREFIX = "PYSPIDER_ZK_"
SECTION = "zookeeper"

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?")
_ORIGIN = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?")
_ROOT = re.compile(r"(/(?!\.{1,2}(/|$))[^/\s]+)+")


@dataclass(frozen=True)
class Settings:
    """How a process takes part in a cluster. Times are seconds.

    Attributes:
        hosts: ZooKeeper's addresses, ``host:port,host:port``.
        root: the znode below which this cluster lives.
        slots: number of slots; fixed at the cluster's birth, the same everywhere.
        renewal: how often a member renews its lease.
        lease: how long a renewal lasts; members may have different ones.
        hang: how long the scheduling loop may stand still, loading a large project for instance,
            before it is taken for hung and its lease is not renewed any more; at least a lease.
        budget: how long an effect may take; the gate shuts so much before the lease ends.
        session: the ZooKeeper session timeout asked for.
        drain: how long a member that got SIGTERM waits for its slots to move away.
        name: a member's identity, which keeps its number; empty: host and port if the XML-RPC
            port is given, else none.
        await_members: how many members a newborn cluster waits for before the first grant.
        advertise: the address others reach this process at; empty: the one that reaches
            ZooKeeper.
        login_to_change: in the web UI, whoever is not logged in may only look.
        viewer_username: of a second login to the web UI, which may look and change nothing.
        viewer_password: of that login.
        trusted_origins: whose pages may change things through the web UI, beside its own.
        trusted_hosts: names by which browsers may reach the web UI, beside where it listens.
        users: the file with those who may log in to the web UI; empty: none.
    """

    hosts: str = "127.0.0.1:2181"
    root: str = "/pyspider-zk"
    slots: int = DEFAULT_SLOTS
    renewal: float = 1.0
    lease: float = 4.0
    hang: float = HANG
    budget: float = 0.1
    session: float = 10.0
    drain: float = 30.0
    name: str = ""
    await_members: int = 1
    advertise: str = ""
    trusted_origins: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    users: str = ""
    login_to_change: bool = False
    viewer_username: str = ""
    viewer_password: str = field(default="", repr=False)


def settings_from(
    section: object = None, environ: Mapping[str, str] | None = None, hosts: str | None = None
) -> Settings:
    """Merge the sources into valid settings.

    Args:
        section: the ``"zookeeper"`` section of config.json: a mapping, or the hosts as a string.
        environ: the environment.
        hosts: the option ``--zookeeper``; a path after the addresses is the root.

    Raises:
        ConfigError: with every fault found.
    """
    faults: list[str] = []
    given = _split_root(_from_section(section, faults), faults)
    given |= _split_root(_from_environ(environ or {}, faults), faults)
    given |= _split_root({"hosts": (hosts, "--zookeeper")} if hosts else {}, faults)
    values = _convert(given, faults)
    if "hang" not in given:  # no fault of whoever only chose a long lease
        values["hang"] = max(HANG, values.get("lease", HANG))
    faults += _check(Settings(**values), set(given) - set(values))
    if faults:
        raise ConfigError(faults)
    return Settings(**values)


_Given = dict[str, tuple[object, str]]  # setting -> value and the place it came from
_NAMES = tuple(each.name for each in fields(Settings))
_TYPES: Mapping[str, Callable[[object], object]] = {
    "slots": lambda value: _whole(value),
    "renewal": lambda value: _seconds(value),
    "lease": lambda value: _seconds(value),
    "hang": lambda value: _seconds(value),
    "budget": lambda value: _seconds(value),
    "session": lambda value: _seconds(value),
    "drain": lambda value: _seconds(value),
    "await_members": lambda value: _whole(value),
    "trusted_origins": lambda value: _origins(value),
    "trusted_hosts": lambda value: _hosts(value),
    "login_to_change": lambda value: _yes_or_no(value),
    "viewer_password": lambda value: _secret(value),
}


def unknown(name: str, place: str, known: list[str]) -> str:
    """Return the sentence for a key that does not exist, with the likely one."""
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return f"{place}: there is no setting {name!r}; {remedy}"


def _from_section(section: object, faults: list[str]) -> _Given:
    place = f'section "{SECTION}"'
    if section is None:
        return {}
    if isinstance(section, str):
        return {"hosts": (section, place)}
    if not isinstance(section, Mapping):
        faults.append(f"{place}: must be an object or the addresses as a string")
        return {}
    faults.extend(unknown(str(key), place, list(_NAMES)) for key in section if key not in _NAMES)
    return {key: (value, f"{place}, {key}") for key, value in section.items() if key in _NAMES}


def _from_environ(environ: Mapping[str, str], faults: list[str]) -> _Given:
    given: _Given = {}
    for variable, value in environ.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        if name in _NAMES:
            given[name] = (value, variable)
        else:
            faults.append(unknown(name, f"environment, {variable}", list(_NAMES)))
    return given


def _split_root(given: _Given, faults: list[str]) -> _Given:
    """Make a path that follows the addresses the root."""
    hosts, place = given.get("hosts", ("", ""))
    if not isinstance(hosts, str) or "/" not in hosts:
        return given
    addresses, _, path = hosts.partition("/")
    if "root" in given:
        faults.append(f"{place}: the root is given twice, after the addresses and as a setting")
    return {**given, "hosts": (addresses, place), "root": ("/" + path, place)}


def _convert(given: _Given, faults: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (value, place) in given.items():
        try:
            values[name] = _TYPES.get(name, _text)(value)
        except ValueError as error:
            faults.append(f"{place}: {error}")
    return values


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {value!r}")
    return value.strip()


def _secret(value: object) -> str:
    """Take a text as it is, and say nothing of what it is instead."""
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise ValueError(f"must be a whole number, not {value!r}")
    return int(str(value))


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not re.fullmatch(r"\d+(\.\d+)?", str(value)):
        raise ValueError(f"must be a number of seconds, not {value!r}")
    return float(str(value))


def _yes_or_no(value: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    word = str(value).strip().lower()
    if word not in words:
        raise ValueError(f"must be true or false, not {value!r}")
    return words[word]


def _origins(value: object) -> tuple[str, ...]:
    """Read a list, or a text with commas."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError(f"must be a list of origins, not {value!r}")
    origins = tuple(str(each).strip() for each in given if each != "")
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin!r} must be an origin such as https://crawl.example.org")
    return origins


def _hosts(value: object) -> tuple[str, ...]:
    """Read a list, or a text with commas."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError(f"must be a list of names, not {value!r}")
    hosts = tuple(str(each).strip() for each in given if each != "")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} must be a name such as crawl.example.org")
    return hosts


def _check(settings: Settings, faulty: set[str]) -> list[str]:
    """Return what is wrong with the values, those apart that are no values at all."""
    addresses = settings.hosts.split(",")
    rules = [
        (
            {"hosts"},
            all(_is_address(address.strip()) for address in addresses),
            f"hosts: {settings.hosts!r} must be host:port,host:port",
        ),
        (
            {"root"},
            bool(_ROOT.fullmatch(settings.root)),
            f"root: {settings.root!r} must be a path such as /pyspider-zk",
        ),
        (
            {"slots"},
            1 <= settings.slots <= MOST_SLOTS,
            f"slots: {settings.slots} must be from 1 to {MOST_SLOTS}",
        ),
        ({"renewal"}, settings.renewal > 0, "renewal: must be more than 0 seconds"),
        (
            {"lease", "renewal"},
            # The leader looks once in a renewal. Looks further apart than half a lease begin anew.
            settings.lease >= 3 * settings.renewal,
            f"lease: {settings.lease:g} s must be at least three renewals"
            f" of {settings.renewal:g} s",
        ),
        (
            {"lease"},
            settings.lease <= LONGEST_LEASE,
            f"lease: {settings.lease:g} s must be no more than {LONGEST_LEASE:g} seconds",
        ),
        (
            {"hang", "lease"},
            settings.hang >= settings.lease,
            f"hang: {settings.hang:g} s must be at least the lease of {settings.lease:g} s",
        ),
        (
            {"budget", "lease"},
            settings.budget < settings.lease / 2,
            f"budget: {settings.budget:g} s must be less than half the lease"
            f" of {settings.lease:g} s: nothing could be scheduled between two renewals",
        ),
        ({"session"}, settings.session > 0, "session: must be more than 0 seconds"),
        ({"await_members"}, settings.await_members >= 1, "await_members: must be at least 1"),
        (
            {"viewer_username", "viewer_password"},
            bool(settings.viewer_username) == bool(settings.viewer_password),
            "viewer_username and viewer_password: give both or none",
        ),
        (
            {"viewer_username"},
            ":" not in settings.viewer_username,
            "viewer_username: must have no colon",
        ),
    ]
    return [fault for names, holds, fault in rules if not holds and not names & faulty]


def _is_address(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and 0 < int(found["port"] or 2181) < 65536
