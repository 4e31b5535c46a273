"""Identity of a process: how it describes itself to the cluster."""

import os
import socket
import time
from typing import Any

from pyspider_zk import __version__
from pyspider_zk.cluster.presence import Presence, Report
from pyspider_zk.cluster.protocols import SPOKEN
from pyspider_zk.cluster.records import Component, ComponentKind, Member
from pyspider_zk.config import Settings
from pyspider_zk.listening import is_loopback
from pyspider_zk.rpc.tls import TLS
from pyspider_zk.zookeeper.wire import local_address


def member_record(settings: Settings, port: int, bound: str) -> Member:
    """Return the record of a scheduler that serves XML-RPC at a port of a host."""
    scheme = TLS if settings.xmlrpc_tls_certificate else ""
    return Member(
        address=scheme + reachable(settings, port, bound), name=settings.name, **_this_process()
    )


def reachable(settings: Settings, port: int, bound: str = "") -> str:
    """Return the address at which others reach a port of this process.

    Args:
        bound: the address that it is bound to; empty or 0.0.0.0: all addresses.
    """
    everywhere = bound in ("", "0.0.0.0", "::")  # noqa: S104 - asked about, not bound
    host = settings.advertise or (local_address(settings.hosts) if everywhere else bound)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_out_of_reach(settings: Settings, bound: str) -> bool:
    """Return whether a process listens on loopback though its ZooKeeper is on another machine."""
    if settings.advertise or not is_loopback(bound):
        return False
    return not is_loopback(local_address(settings.hosts))


def presence(
    settings: Settings,
    kind: ComponentKind,
    address: str = "",
    *,
    consumer: str = "",
    report: Report | None = None,
) -> Presence:
    """Return this process's presence as a component, not yet entered; see ``Component``."""
    record = Component(address=address, consumer=consumer, **_this_process())
    return Presence(settings, kind, record, report)


def _this_process() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": __version__,
        "started": time.time(),
        "protocols": SPOKEN,
    }
