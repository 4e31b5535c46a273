"""Settings of the cluster: where they come from, what they may be.

Later sources win: defaults, the ``"zookeeper"`` section of config.json, the environment
(``PYSPIDER_ZK_HOSTS``, ``PYSPIDER_ZK_LEASE``, ...), the option ``--zookeeper``. A secret may
stand in a file that ``<setting>_file`` names. All faults are reported at once, by name.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pyspider_zk.errors import ConfigError
from pyspider_zk.limits import (
    DEFAULT_SLOTS,
    LARGEST_PAGE,
    LONGEST_LEASE,
    LONGEST_WAIT,
    MOST_SLOTS,
    REFUSED_IN_PATHS,
    SHORTEST_LEASE,
    SHORTEST_RENEWAL,
)
from pyspider_zk.listening import is_loopback
from pyspider_zk.secret_files import read_cluster_secret, read_secret
from pyspider_zk.setting_values import converted, is_address, is_listening

HANG = 30.0  # seconds
RENEWAL = 1.25  # seconds
RENEWALS = 3.2  # in a lease, by default: three tries, and time for the last one
LONGEST_ROOT = 255  # characters; it is part of a key in the task database

ENV_PREFIX = "PYSPIDER_ZK_"
SECTION = "zookeeper"
DIGEST, SASL = "digest", "sasl"
JSON = "json"
LOG_FORMATS = ("pyspider", JSON)
SECRET_FILE_VARIABLE = f"{ENV_PREFIX}SECRET_FILE"
SECRET_VARIABLES = (f"{ENV_PREFIX}SECRET", SECRET_FILE_VARIABLE)

_SERVICE_PLACE = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
_SERVICE_VARIABLE = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?$"
)
_ROOT = re.compile(rf"(/(?!\.{{1,2}}(/|$))[^/\s{REFUSED_IN_PATHS}]+)+")


@dataclass(frozen=True)
class Settings:
    """How a process takes part in a cluster. Times are seconds.

    The reference of the settings is made of these descriptions.

    Attributes:
        hosts: ZooKeeper's addresses, ``host:port,host:port``.
        root: the znode below which the cluster lives; two clusters need different roots, and a
            Redis database each.
        slots: number of slots, from 1 to 16384; fixed when the cluster is created, the same
            everywhere.
        renewal: seconds between two renewals of the lease, at least 0.1; if only ``lease`` is set
            and shorter than 4, that by 3.2.
        lease: seconds that a renewal lasts, at least 0.5 and three renewals, at most 600;
            schedulers may have different values. A dead scheduler's projects pause for a little
            longer than that.
        hang: seconds that a scheduler's loop may stand still, for example while it loads a large
            project, before its projects go to others; at least a lease, at most a day.
        budget: seconds that a single write or send may take; scheduling stops that long before the
            lease ends. Less than half a lease.
        session: seconds of ZooKeeper session to request, from 0.5 to a day; the server may grant
            another value, which is then used, and a warning reports it.
        drain: seconds that a scheduler waits, after SIGTERM, for its slots to move, and a fetcher
            or renderer for the pages that it is at; at most a day.
        name: a scheduler's identity, which keeps its number; without one it is host and port if the
            XML-RPC port is given, else the scheduler gets the lowest free number.
        await_members: how many schedulers a new cluster waits for before it assigns the slots for
            the first time; set it to the number that you start at once, and nothing moves twice.
        advertise: the host name at which others reach this scheduler; without one it is the address
            that its XML-RPC listens on, or if that is every address, the one that reaches
            ZooKeeper.
        trusted_origins: sites whose pages may change things through the web UI, besides its own: a
            list, or a text with commas.
        trusted_hosts: names by which browsers may reach the web UI, besides the address that it
            listens on: a list, or a text with commas.
        trusted_proxies: addresses or networks of the proxies before the web UI, whose header
            ``X-Forwarded-For`` tells a visitor's address: a list, or a text with commas.
        users: the file of the web UI's users.
        login_to_change: users who are not logged in can only read in the web UI; needs ``users``,
            or ``webui --username --password``.
        viewer_username: of a second login to the web UI, which can read everything and change
            nothing; needs ``webui --need-auth --username --password``.
        viewer_password: of that login.
        username: of the cluster's login to ZooKeeper; what is created there then belongs to that
            login alone.
        password: of that login.
        scheme: how to log in: ``digest``, or ``sasl`` with DIGEST-MD5, which needs ``pip install
            pure-sasl``.
        readers: who else may read the cluster's znodes: a list of ``digest:NAME:HASH`` or
            ``sasl:NAME``.
        tls: encrypt the connection to ZooKeeper, and verify its certificate and name.
        tls_ca: file of the authorities that may have signed ZooKeeper's certificate; without one
            the system's.
        tls_certificate: file of this process's own certificate, for a ZooKeeper that requires one.
        tls_key: file of its key, unencrypted.
        secret: the cluster's secret, best given in a file or in the environment; 16 to 1000
            characters, the same everywhere.
        secret_file: a file with the cluster's secret, readable only by its user.
        xmlrpc_names: host names by which clients call schedulers, besides their addresses: a list,
            or a text with commas.
        xmlrpc_tls: require TLS: schedulers without it are not called, and do not start.
        xmlrpc_tls_ca: file of the authorities that may have signed schedulers' certificates;
            without one the system's.
        xmlrpc_tls_certificate: file of a process's certificate; with it XML-RPC, metrics and health
            are served by TLS only, and a renderer on other addresses than loopback.
        xmlrpc_tls_key: file of its key, unencrypted.
        allow_quit: XML-RPC's ``_quit`` ends a scheduler.
        insecure: XML-RPC, renderers, the web UI and metrics may listen on any address without
            secret, login or token, as with ``--insecure``; alerts may go by http.
        port_connections: that the web UI's port, and each port of XML-RPC and renderers, keep open
            at the same time, and requests that they answer, half of them from one address, 16 to
            65536; beyond these the one is closed that has waited longest for a request.
        port_body_seconds: in which the body of a request must have come, and in which each 16 KB of
            an export must be read; at least 1.
        metrics: ``HOST:PORT`` at which a process serves metrics and health; port 0 is a free one,
            without a host and port there are none.
        metrics_token: what opens the metrics, needed at other addresses than loopback; best in a
            file, 16 to 1000 characters of ASCII.
        alert_webhook: URL that the leader posts changes of alerts to; best in a file, as a secret
            may be in it.
        page_limit: bytes of a page, decompressed, at most 50331648 (48 MB); one that is larger
            counts as failed.
        page_memory: bytes of all pages that a fetcher holds at a time; beyond them large pages
            wait, and no tasks are taken. At least ``page_limit``.
        forbidden_networks: networks that pages are never fetched from, whatever the name in the URL
            is: a list, or a text with commas. Without it those where clouds tell machines their
            secrets.
        renderer_networks: networks that a rendered page may reach though they are not public: a
            list, or a text with commas. Without it a page reaches public addresses, and the host
            and port that the script asked for.
        log_format: of log lines: ``pyspider``, or ``json`` for an object per line.
    """

    hosts: str = "127.0.0.1:2181"
    root: str = "/pyspider-zk"
    slots: int = DEFAULT_SLOTS
    renewal: float = RENEWAL
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
    trusted_proxies: tuple[str, ...] = ()
    users: str = ""
    login_to_change: bool = False
    viewer_username: str = ""
    viewer_password: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    scheme: str = DIGEST
    readers: tuple[str, ...] = ()
    tls: bool = False
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    secret: str = field(default="", repr=False)
    secret_file: str = ""
    xmlrpc_names: tuple[str, ...] = ()
    xmlrpc_tls: bool = False
    xmlrpc_tls_ca: str = ""
    xmlrpc_tls_certificate: str = ""
    xmlrpc_tls_key: str = ""
    allow_quit: bool = False
    insecure: bool = False
    port_connections: int = 512
    port_body_seconds: float = 60.0
    metrics: str = ""
    metrics_token: str = field(default="", repr=False)
    alert_webhook: str = field(default="", repr=False)
    page_limit: int = 8 * 2**20
    page_memory: int = 256 * 2**20
    forbidden_networks: tuple[str, ...] = ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128")
    renderer_networks: tuple[str, ...] = ()
    log_format: str = "pyspider"


def settings_from(
    section: object = None, environ: Mapping[str, str] | None = None, hosts: str | None = None
) -> Settings:
    """Merge the sources into valid settings.

    Args:
        section: the ``"zookeeper"`` section of config.json: a mapping, or the hosts as a string.
        environ: the environment.
        hosts: the option ``--zookeeper``; a path after the addresses is the root.

    Reads the secret's file, if one is named.

    Raises:
        ConfigError: with every fault found.
    """
    faults: list[str] = []
    given = _split_root(_from_section(section, faults), faults)
    given |= _split_root(_from_environ(environ or {}, faults), faults)
    given |= _split_root({"hosts": (hosts, "--zookeeper")} if hosts else {}, faults)
    values = _convert(given, faults)
    if "hang" not in given:  # not the fault of a user who only chose a long lease
        values["hang"] = max(HANG, values.get("lease", HANG))
    if "renewal" not in given and "lease" in values:  # nor of one who chose a short lease
        values["renewal"] = min(RENEWAL, values["lease"] / RENEWALS)
    values |= _secret_in_file(values, faults)
    faults += _check(Settings(**values), set(given) - set(values))
    if faults:
        raise ConfigError(faults)
    return Settings(**values)


_Given = dict[str, tuple[object, str]]  # setting -> value and the place it came from
_NAMES = tuple(each.name for each in fields(Settings))
SECRETS = tuple(each.name for each in fields(Settings) if not each.repr)
"""The settings whose values are secret, or may hold one: whatever is not to be shown."""
_FILES = {f"{name}_file": name for name in SECRETS if f"{name}_file" not in _NAMES}
_KNOWN = (*_NAMES, *_FILES)


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
    faults.extend(unknown(str(key), place, list(_NAMES)) for key in section if key not in _KNOWN)
    known = {key: (value, f"{place}, {key}") for key, value in section.items() if key in _KNOWN}
    return _from_files(known, faults)


def is_service_link(variable: str, value: str) -> bool:
    """Return whether Kubernetes or Docker set a variable, to tell where a service is."""
    is_port = variable.endswith("_PORT") and _SERVICE_PLACE.fullmatch(value)
    return bool(is_port or _SERVICE_VARIABLE.search(variable))


def _from_environ(environ: Mapping[str, str], faults: list[str]) -> _Given:
    given: _Given = {}
    for variable, value in environ.items():
        if not variable.startswith(ENV_PREFIX) or is_service_link(variable, value):
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        if name in _KNOWN:
            given[name] = (value, variable)
        else:
            faults.append(unknown(name, f"environment, {variable}", list(_NAMES)))
    return _from_files(given, faults)


def _from_files(given: _Given, faults: list[str]) -> _Given:
    """Put the secrets in place of the files that hold them."""
    found = {name: each for name, each in given.items() if name not in _FILES}
    for name, secret in _FILES.items():
        if name not in given:
            continue
        path, place = given[name]
        if secret in found:
            faults.append(f"{place}: give {secret} or {name}, not both")
        try:
            found[secret] = (read_secret(path), place)
        except ValueError as error:
            faults.append(f"{place}: {error}")
    return found


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
            values[name] = converted(name, type(getattr(Settings, name)), value)
        except ValueError as error:
            faults.append(f"{place}: {error}")
    return values


def _secret_in_file(values: Mapping[str, Any], faults: list[str]) -> dict[str, str]:
    """Return the secret that stands in the file that is named, if one is."""
    if not values.get("secret_file"):
        return {}
    if values.get("secret"):
        faults.append("secret and secret_file: give one of the two")
        return {}
    try:
        return {"secret": read_cluster_secret(Path(values["secret_file"]))}
    except ConfigError as error:
        faults.extend(f"secret_file: {fault}" for fault in error.faults)
        return {}


class _Rule(NamedTuple):
    """What must hold of some settings.

    Attributes:
        names: those that it is about; it is not asked while one of them is no value at all.
        fault: what is wrong if it does not hold, with the settings as ``{0}``.
    """

    names: str
    holds: Callable[[Settings], bool]
    fault: str


def _both(first: str, second: str, more: str = "") -> _Rule:
    """Return the rule that two settings are given together."""
    return _Rule(
        f"{first} {second}",
        lambda its: bool(getattr(its, first)) == bool(getattr(its, second)),
        f"{first} and {second}: give both or none{more}",
    )


def _at_most(name: str, limit: float) -> _Rule:
    """Return the rule that a time is no longer than a limit."""
    fault = f"{name}: {{0.{name}:g}} s must be no more than {limit:g} seconds"
    return _Rule(name, lambda its: bool(getattr(its, name) <= limit), fault)


def _at_least(name: str, limit: float) -> _Rule:
    """Return the rule that a time is no shorter than a limit."""
    fault = f"{name}: {{0.{name}:g}} s must be at least {limit:g} seconds"
    return _Rule(name, lambda its: bool(getattr(its, name) >= limit), fault)


_TIMES = (
    _at_least("renewal", SHORTEST_RENEWAL),
    _at_least("lease", SHORTEST_LEASE),
    _at_least("session", SHORTEST_LEASE),
    _Rule(
        "lease renewal",
        # The leader looks once in a renewal. Looks further apart than half a lease begin anew.
        lambda its: its.lease >= 3 * its.renewal,
        "lease: {0.lease:g} s must be at least three renewals of {0.renewal:g} s",
    ),
    _at_most("lease", LONGEST_LEASE),
    _at_most("hang", LONGEST_WAIT),
    _at_most("session", LONGEST_WAIT),
    _at_most("drain", LONGEST_WAIT),
    _Rule(
        "hang lease",
        lambda its: its.hang >= its.lease,
        "hang: {0.hang:g} s must be at least the lease of {0.lease:g} s",
    ),
    _Rule(
        "budget lease",
        lambda its: its.budget < its.lease / 2,
        "budget: {0.budget:g} s must be less than half the lease of {0.lease:g} s: nothing could be"
        " scheduled between two renewals",
    ),
)

_LOGINS = (
    _both("viewer_username", "viewer_password"),
    _Rule(
        "viewer_username",
        lambda its: ":" not in its.viewer_username,
        "viewer_username: must have no colon",
    ),
    _both("username", "password", "; password_file may stand for password"),
    _Rule(
        "username",
        lambda its: not set(its.username) & set(":@/,"),
        "username: must have none of : @ / and comma",
    ),
    _Rule(
        "scheme",
        lambda its: its.scheme in (DIGEST, SASL),
        f"scheme: {{0.scheme!r}} must be {DIGEST} or {SASL}",
    ),
    _Rule(
        "readers username",
        lambda its: bool(its.username) or not its.readers,
        "readers: need username and password; without a login everybody may read",
    ),
)

_RULES = (
    _Rule(
        "hosts",
        lambda its: all(is_address(each.strip()) for each in its.hosts.split(",")),
        "hosts: {0.hosts!r} must be host:port,host:port",
    ),
    _Rule(
        "root",
        lambda its: bool(_ROOT.fullmatch(its.root)) and len(its.root) <= LONGEST_ROOT,
        "root: {0.root!r:.300} must be a path such as /pyspider-zk, of at most"
        f" {LONGEST_ROOT} characters that ZooKeeper allows, without spaces",
    ),
    _Rule(
        "slots",
        lambda its: 1 <= its.slots <= MOST_SLOTS,
        f"slots: {{0.slots}} must be from 1 to {MOST_SLOTS}",
    ),
    *_TIMES,
    _Rule(
        "port_connections",
        lambda its: 16 <= its.port_connections <= 65536,
        "port_connections: {0.port_connections} must be from 16 to 65536",
    ),
    _at_least("port_body_seconds", 1.0),
    _Rule(
        "await_members",
        lambda its: 1 <= its.await_members <= MOST_SLOTS,
        f"await_members: {{0.await_members}} must be from 1 to {MOST_SLOTS}",
    ),
    *_LOGINS,
    _Rule(
        "tls tls_ca tls_certificate tls_key",
        lambda its: its.tls or not any((its.tls_ca, its.tls_certificate, its.tls_key)),
        "tls_ca, tls_certificate and tls_key: need tls, which is false",
    ),
    _both("tls_certificate", "tls_key"),
    _both("xmlrpc_tls_certificate", "xmlrpc_tls_key"),
    _Rule(
        "metrics",
        lambda its: not its.metrics or is_listening(its.metrics),
        "metrics: {0.metrics!r:.80} must be HOST:PORT such as 127.0.0.1:9464; port 0: a free one",
    ),
    _Rule(
        "metrics metrics_token",
        lambda its: bool(its.metrics) or not its.metrics_token,
        "metrics_token: opens nothing without metrics",
    ),
    _Rule(
        "page_limit",
        lambda its: 1 <= its.page_limit <= LARGEST_PAGE,
        f"page_limit: {{0.page_limit}} must be from 1 to {LARGEST_PAGE}, to fit into a message",
    ),
    _Rule(
        "page_limit page_memory",
        lambda its: its.page_limit <= its.page_memory,
        "page_memory: {0.page_memory} must be at least page_limit, {0.page_limit}",
    ),
    _Rule(
        "log_format",
        lambda its: its.log_format in LOG_FORMATS,
        f"log_format: {{0.log_format!r:.80}} must be {' or '.join(LOG_FORMATS)}",
    ),
    _Rule(
        "alert_webhook insecure",
        lambda its: its.insecure or not _is_readable_on_the_way(its.alert_webhook),
        "alert_webhook: must begin with https, except on loopback: others could read it",
    ),
)


def _check(settings: Settings, faulty: set[str]) -> list[str]:
    """Return what is wrong with the values, those apart that are no values at all."""
    asked = (rule for rule in _RULES if faulty.isdisjoint(rule.names.split()))
    return [rule.fault.format(settings) for rule in asked if not rule.holds(settings)]


def _is_readable_on_the_way(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")
