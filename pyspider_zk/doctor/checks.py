"""Checks of an installation: which facts are gathered, and which rules judge them."""

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from pyspider_zk import __version__
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, event_name
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import SECRETS, Settings
from pyspider_zk.databases import survey as database_survey
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.databases.facts import DatabaseServerFacts
from pyspider_zk.databases.urls import faults as database_faults
from pyspider_zk.doctor import database_rules
from pyspider_zk.doctor.cluster_rules import (
    ClusterFacts,
    clock_finding,
    cluster_clock_findings,
    cluster_findings,
    secret_finding,
)
from pyspider_zk.doctor.entrances import entrance_finding, entrances
from pyspider_zk.doctor.findings import DoctorCheck, Finding, failed, ok, warning
from pyspider_zk.doctor.machine_rules import (
    KeptFile,
    canonical,
    file_findings,
    package_findings,
    secret_findings,
)
from pyspider_zk.doctor.redis_rules import redis_findings
from pyspider_zk.doctor.zookeeper_rules import zookeeper_findings
from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import LOOPBACK, check_listening
from pyspider_zk.queues import redis_survey
from pyspider_zk.rpc.admission import LISTENER as XMLRPC
from pyspider_zk.webui.accounts import LISTENER as WEBUI
from pyspider_zk.webui.accounts import login_faults
from pyspider_zk.zookeeper.connection import Connection, connected
from pyspider_zk.zookeeper.survey import survey as zookeeper_survey

_PASSWORD = re.compile(r"://[^\s:/@]*:(\S*)@")  # up to the last @, for it may hold one
_SENTINEL_PASSWORD = re.compile(r"[?&]sentinel_password=([^&\s]*)")

_CALLED = {"secret": "the cluster's secret", "password": "ZooKeeper's password"}
_NO_PASSWORDS = ("alert_webhook",)
"""Secret settings that are no passwords: to hide, but not to judge by length."""

PATIENCE = 10.0  # seconds for ZooKeeper's first answer


@dataclass(frozen=True)
class Installation:
    """What is examined.

    Attributes:
        settings: of the cluster.
        message_queue: its URL; None: none is named.
        databases: URLs by kind.
        config: what config.json holds.
        config_file: its path; None: there is none.
        data_path: the folder for data.
        lock: the lock file that was installed; None: there is none.
    """

    settings: Settings
    message_queue: str | None = field(repr=False)
    databases: Mapping[str, str] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    config_file: Path | None
    data_path: Path
    lock: Path | None


def checks(it: Installation) -> list[DoctorCheck]:
    """Return all checks; nothing is asked yet."""
    return [
        DoctorCheck("settings", partial(_settings, it)),
        DoctorCheck("secrets", lambda: secret_findings(named_secrets(it))),
        DoctorCheck("files", partial(_files, it)),
        DoctorCheck("ZooKeeper", partial(_zookeeper, it)),
        *checks_without_settings(it),
        DoctorCheck("cluster", partial(_cluster, it)),
    ]


def checks_without_settings(it: Installation) -> list[DoctorCheck]:
    """Return the checks that make sense even if the cluster's settings are faulty."""
    return [
        DoctorCheck("packages", partial(_packages, it)),
        DoctorCheck("Redis", partial(_redis, it)),
        *(DoctorCheck(kind, partial(_database, it, kind)) for kind in DATABASES),
    ]


def named_secrets(it: Installation) -> dict[str, str]:
    """Return all secrets by what they are for; empty ones are missing."""
    webui = _section(it.config, "webui")
    ours = {name: getattr(it.settings, name) for name in SECRETS if name not in _NO_PASSWORDS}
    return {
        **{_CALLED.get(name, name): secret for name, secret in ours.items()},
        "the web UI's password": str(webui.get("password") or ""),
        "the sentinels' password": unquote(_sentinel_password(it)),
        **{f"{name}'s password": unquote(_quoted_password(url)) for name, url in _urls(it).items()},
    }


def spellings(it: Installation) -> set[str]:
    """Return the secrets in every form that a message may quote."""
    quoted = map(_quoted_password, _urls(it).values())
    urls = {getattr(it.settings, name) for name in _NO_PASSWORDS}
    return {*named_secrets(it).values(), *urls, *quoted, _sentinel_password(it)} - {""}


def _urls(it: Installation) -> dict[str, str]:
    return {"the message queue": it.message_queue or "", **it.databases}


def _quoted_password(url: str) -> str:
    """Return the password as it stands in a URL, which may be none that can be parsed."""
    return _found(_PASSWORD, url)


def _sentinel_password(it: Installation) -> str:
    return _found(_SENTINEL_PASSWORD, it.message_queue or "")


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _settings(it: Installation) -> Iterator[Finding]:
    """Judge settings that are each valid, but may not be together. Reads the user file, if any."""
    settings = it.settings
    faults = [*database_faults(it.databases), *_web_faults(settings, it.config)]
    for fault in faults:
        yield failed(fault, "correct it in the configuration")
    if settings.insecure:
        yield warning(
            "insecure is set: XML-RPC, renderers, metrics and the web UI may let everybody in",
            "leave it out, and set secret_file, metrics_token_file and a login of the web UI",
        )
    if not faults and not settings.insecure:
        yield ok("the settings fit together")


def _web_faults(settings: Settings, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the web UI or XML-RPC would not start as config.json has them."""
    webui, scheduler = (_section(config, name) for name in ("webui", "scheduler"))
    login = {f"webui_{name}": webui.get(name) for name in ("username", "password")}
    closed = {**login, "need_auth": webui.get("need_auth")}
    guarded = bool(closed["need_auth"]) or settings.login_to_change
    try:
        yield from login_faults(settings, closed)
        for listener, section, option, guard in (
            (WEBUI, webui, "host", guarded),
            (XMLRPC, scheduler, "xmlrpc_host", bool(settings.secret)),
        ):
            host = str(section.get(option, LOOPBACK))
            check_listening(listener, host, guarded=guard, insecure=settings.insecure)
    except ConfigError as error:
        yield from error.faults


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of config.json, an empty one if it is missing or faulty."""
    section = config.get(name, {})
    return section if isinstance(section, Mapping) else {}


def _zookeeper(it: Installation) -> Iterator[Finding]:
    with connected(it.settings, PATIENCE) as link:
        facts = zookeeper_survey(link, it.settings)
    yield from zookeeper_findings(facts, it.settings)


def _cluster(it: Installation) -> Iterator[Finding]:
    with connected(it.settings, PATIENCE) as link:
        facts = _cluster_facts(link, it.settings)
    yield from cluster_findings(facts.cluster, it.settings, it.databases, __version__)
    yield secret_finding(facts.cluster, it.settings)
    yield from cluster_clock_findings(facts)
    yield from map(entrance_finding, entrances(facts.cluster, it.settings))


def _cluster_facts(connection: Connection, settings: Settings) -> ClusterFacts:
    """Read a cluster; blocks for two round trips per member.

    Raises:
        Unavailable: ZooKeeper does not answer.
        Mismatch: there is no cluster at the root, or one of another protocol.
    """
    tree = Tree(settings.root)
    cluster = Directory(settings, connection).read()
    joined = {each: connection.dates(tree.member(each)) for each in cluster.members}
    renewed = {each: connection.dates(tree.lease(each)) for each in cluster.members}
    return ClusterFacts(
        cluster=cluster,
        joined={each: dates[0] for each, dates in joined.items() if dates},
        renewed={each: dates[1] for each, dates in renewed.items() if dates},
        told=_newest_event(connection, tree),
        now=time.time(),
    )


def _newest_event(connection: Connection, tree: Tree) -> tuple[Event, float] | None:
    for number, event in EventLog(connection, tree).read(limit=1):
        dates = connection.dates(f"{tree.events}/{event_name(number)}")
        if dates is not None:
            return event, dates[0]
    return None


def _redis(it: Installation) -> Iterator[Finding]:
    if not it.message_queue:
        yield failed(
            "no message queue is named, and a cluster needs one",
            "name it with --message-queue redis://host:6379/0 or AMQP_URL",
        )
        return
    facts = redis_survey.survey(it.message_queue)
    yield from redis_findings(facts, it.settings)
    yield clock_finding("its clock", facts.ahead, facts.latency)


def _database(it: Installation, kind: str) -> Iterator[Finding]:
    url = it.databases.get(kind)
    if not url:
        yield warning(
            f"no URL is named: pyspider uses a file in {it.data_path}, which other machines lack",
            f"name {kind} in config.json, or {kind.upper()} in the environment",
        )
        return
    try:
        facts = database_survey.survey(kind, url)
    except (LookupError, ValueError, ImportError) as error:
        yield failed(str(error), f"correct the URL of {kind}")
        return
    if facts is None:
        yield warning("this kind of database is not examined", "see docs/how-to/databases.md")
    elif isinstance(facts, DatabaseServerFacts):
        yield from database_rules.server_findings(facts, it.settings)
        yield clock_finding("its clock", facts.ahead, facts.latency)
    else:
        yield from database_rules.file_findings(facts)


def _files(it: Installation) -> Iterator[Finding]:
    for what, path in _kept_files(it).items():
        try:
            found = os.stat(path)
            kept = KeptFile(what, path, found.st_mode, found.st_uid)
        except FileNotFoundError:
            kept = KeptFile(what, path)
        yield from file_findings(kept, os.geteuid())


def _kept_files(it: Installation) -> dict[str, str]:
    """Return the paths of what must be closed to others, by what it is."""
    settings = it.settings
    named = {
        "the secret": settings.secret_file,
        "tls_key": settings.tls_key,
        "xmlrpc_tls_key": settings.xmlrpc_tls_key,
        "the user file": settings.users,
        "ssl_keyfile": _option(it.message_queue or "", "ssl_keyfile"),
        "the data folder": str(it.data_path) if it.data_path.exists() else "",
    }
    if it.config_file and _holds_any(it.config, spellings(it)):
        named["config.json, with secrets in it"] = str(it.config_file)
    return {what: path for what, path in named.items() if path}


def _holds_any(config: object, secrets: Collection[str]) -> bool:
    """Return whether a secret is in a value of the file, however JSON spells it there."""
    if isinstance(config, str):
        return any(secret in config for secret in secrets)
    values = config.values() if isinstance(config, Mapping) else config
    return isinstance(values, Iterable) and any(_holds_any(each, secrets) for each in values)


def _option(url: str, name: str) -> str:
    return parse_qs(url.partition("?")[2]).get(name, [""])[0]


def _packages(it: Installation) -> Iterator[Finding]:
    if it.lock is None:
        yield ok("no lock file is here to compare with; name one with --lock")
        return
    installed = {canonical(each.name): each.version for each in distributions()}
    yield from package_findings(it.lock.read_text(encoding="utf-8"), installed)
