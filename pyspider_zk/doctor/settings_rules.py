"""Rules about settings that are each valid, but not together."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspider_zk.config import Settings
from pyspider_zk.databases.urls import faults as database_faults
from pyspider_zk.doctor.findings import Finding, failed, ok, warning
from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import LOOPBACK, check_listening
from pyspider_zk.rpc.admission import LISTENER as XMLRPC
from pyspider_zk.webui.accounts import LISTENER as WEBUI
from pyspider_zk.webui.accounts import login_faults


def settings_findings(
    settings: Settings, databases: Mapping[str, str], config: Mapping[str, Any]
) -> Iterator[Finding]:
    """Judge settings together. Reads the user file, if one is named.

    Args:
        databases: their URLs, by kind.
        config: what config.json holds.
    """
    faults = [*database_faults(databases), *_web_faults(settings, config)]
    for fault in faults:
        yield failed(fault, "correct it in the configuration")
    if settings.insecure:
        yield warning(
            "insecure is set: XML-RPC and the web UI may listen to everybody without a login",
            "leave it out, and set secret_file and a login of the web UI",
        )
    if not faults and not settings.insecure:
        yield ok("the settings fit together")


def _web_faults(settings: Settings, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the web UI or XML-RPC would not start as config.json has them."""
    webui, scheduler = (section_of(config, name) for name in ("webui", "scheduler"))
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


def section_of(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of config.json, an empty one if it is missing or faulty."""
    section = config.get(name, {})
    return section if isinstance(section, Mapping) else {}
