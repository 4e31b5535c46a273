"""Rules about ports that processes listen on: who may use what they serve. Pure."""

from dataclasses import dataclass

from pyspider_zk.doctor.cluster_rules import host_of
from pyspider_zk.doctor.findings import Finding, failed, ok, warning
from pyspider_zk.listening import is_loopback


@dataclass(frozen=True)
class Entrance:
    """A port of the cluster, and what it answered to a stranger.

    Attributes:
        name: what listens there.
        address: ``host:port``, after ``https://`` if it uses TLS.
        opens: what somebody who is let in may do.
        guard: what closes it.
        is_open: whether it let the stranger in; None: it did not answer.
        fault: why it did not.
    """

    name: str
    address: str
    opens: str
    guard: str
    is_open: bool | None = None
    fault: str = ""


def entrance_finding(entrance: Entrance) -> Finding:
    """Judge a port by what it answered."""
    told = f"{entrance.name} at {entrance.address}"
    is_local = is_loopback(host_of(entrance.address))
    if entrance.is_open is None:
        return warning(
            f"{told} cannot be reached from here: {entrance.fault}",
            "start it, or set advertise to an address that others reach",
        )
    if entrance.is_open:
        grade = warning if is_local else failed
        who = "every program on this machine" if is_local else "whoever reaches it"
        return grade(f"{told} is open: {who} may {entrance.opens}", entrance.guard)
    if is_local or entrance.address.startswith("https://"):
        return ok(f"{told} is closed to strangers")
    return warning(
        f"{told} is closed to strangers, but has no TLS: what it serves can be read on the network",
        "set xmlrpc_tls_certificate and xmlrpc_tls_key; put a proxy with TLS before the web UI",
    )
