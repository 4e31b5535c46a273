"""A whole cluster on this machine, started by its command."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspider_zk.config import SECRET_FILE_VARIABLE, Settings, settings_from
from pyspider_zk.local.child import tail
from pyspider_zk.local.folder import Running, running_in, zookeeper_environ
from tests.support.connected import is_settled
from tests.support.ports import own_port
from tests.support.processes import PROGRAM, ROOT

STILL = {"lease": 30, "session": 30}
"""Settings of ZooKeeper with which no slot moves because a busy machine stood still for seconds."""

_FEW = ("--processors", "1", "--renderers", "0")


@contextmanager
def up(folder: Path, *options: str, config: Path | None = None) -> Iterator[Running]:
    """Run `pyspider-zk up` in a folder, until the block ends."""
    program = [*PROGRAM, *(["--config", str(config)] if config else [])]
    with (folder / "out.txt").open("ab") as out:
        process = subprocess.Popen(
            [*program, "up", *_FEW, "--webui-port", str(own_port()), *options],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=out,
        )
    try:
        yield _ready(folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(180)


def _ready(folder: Path) -> Running:
    """Wait until the scheduler has all slots and the web UI is there."""
    deadline = time.monotonic() + 180  # seconds: a dozen processes start
    while not ((running := running_in(folder / "data")) and _settled(running)):
        assert time.monotonic() < deadline, tail(folder / "out.txt", lines=50)
        time.sleep(0.1)
    return running


def _settled(running: Running) -> bool:
    return is_settled(settings_of(running), components=4) and listens(running.webui)


def settings_of(running: Running) -> Settings:
    """Return what lets a program into the cluster, with the secrets that ``up`` made for it."""
    made = {SECRET_FILE_VARIABLE: running.secret_file} if running.secret_file else {}
    made |= zookeeper_environ(running.zookeeper_password_file)
    return settings_from(environ={**os.environ, **made}, hosts=running.zookeeper)


def listens(url: str) -> bool:
    """Return whether somebody listens there.

    A web UI is a component before it does, and the znode of a scheduler that was killed stands for
    a while after it did.
    """
    address = urlsplit(url)
    with socket.socket() as link:
        return link.connect_ex((address.hostname, address.port)) == 0
