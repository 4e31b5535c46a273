"""What this process tells about itself."""

import os
import socket
import time

from pyspider_zk import __version__
from pyspider_zk.config import Settings
from pyspider_zk.core.records import Component, ComponentKind, Member
from pyspider_zk.zookeeper.connection import local_address
from pyspider_zk.zookeeper.presence import Presence


def member_record(settings: Settings, port: int) -> Member:
    """Return what a scheduler tells that serves XML-RPC at a port."""
    host = settings.advertise or local_address(settings.hosts)
    return Member(
        address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        started=time.time(),
        name=settings.name,
    )


def presence(settings: Settings, kind: ComponentKind, address: str = "") -> Presence:
    """Return this process's presence as a component, not yet entered."""
    record = Component(
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        started=time.time(),
        address=address,
    )
    return Presence(settings, kind, record)
