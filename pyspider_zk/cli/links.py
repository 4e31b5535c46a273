"""Variables that Docker and Kubernetes set for other containers, as far as pyspider reads them."""

import os
from collections.abc import Iterable, Mapping, MutableMapping

from pyspider.database import servers

from pyspider_zk.config import is_service_link
from pyspider_zk.errors import ConfigError

PORTS = ("WEBUI_PORT", "SCHEDULER_XMLRPC_PORT", "FETCHER_XMLRPC_PORT")
"""pyspider's variables of its own ports; those of a service of that name are called alike."""

SCHEDULER = "SCHEDULER"

# container -> the variables of its place that pyspider reads, and the options that stand for them
_LINKS = {
    "MYSQL": (
        ("MYSQL_PORT_3306_TCP_ADDR", "MYSQL_PORT_3306_TCP_PORT"),
        "--taskdb, --projectdb and --resultdb",
    ),
    "RABBITMQ": (
        ("RABBITMQ_PORT_5672_TCP_ADDR", "RABBITMQ_PORT_5672_TCP_PORT"),
        "--message-queue",
    ),
    "PHANTOMJS": (("PHANTOMJS_PORT_25555_TCP",), "--phantomjs-proxy"),
    SCHEDULER: (("SCHEDULER_PORT_23333_TCP",), "--scheduler-rpc"),
}


def take_out_services(environ: MutableMapping[str, str]) -> list[str]:
    """Remove the variables that name no port of ours but a service; return a warning for each."""
    found = {name: environ[name] for name in PORTS if is_service_link(name, environ.get(name, ""))}
    for name in found:
        del environ[name]
    return [
        f"{name}={place} is ignored: Kubernetes or Docker set it for a service of that name;"
        " the pod's enableServiceLinks: false keeps it away"
        for name, place in found.items()
    ]


def link_faults(containers: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the links to these containers, if there are any.

    pyspider takes a variable such as MYSQL_NAME for a link, whatever set it.
    """
    faults = []
    for container in containers:
        name = f"{container}_NAME"
        needed, options = _LINKS[container]
        missing = [variable for variable in needed if not environ.get(variable)]
        if environ.get(name) and missing:
            faults.append(
                f"environment, {name}: stands for a linked container, and {missing[0]} is missing:"
                f" unset it, or give {options}"
            )
    return faults


def database_link_faults(environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the link to the databases that no option names."""
    if environ.get("MONGODB_NAME") and not environ.get("MYSQL_NAME"):
        return [f"environment, MONGODB_NAME: {servers.unsupported('mongodb')}; or unset it"]
    return link_faults(["MYSQL"], environ)


def check_scheduler_link() -> None:
    """Check the link to a scheduler, of who names none and looks for none in ZooKeeper.

    Raises:
        ConfigError: half of it is missing.
    """
    if faults := link_faults([SCHEDULER], os.environ):
        raise ConfigError(faults)
