"""The Docker engine of a run: one that runs already, or one of our own that leaves nothing behind.

Ours has namespaces of its own for network and mounts, and a way out by slirp4netns: no bridge,
no rule of the firewall and no mount is the machine's. It has this process's priority, and its
containers have the engine's.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import docker
from docker.errors import DockerException

from pyspider_zk.errors import MissingService, Unavailable
from pyspider_zk.local.child import tail
from tests.support.waiting import eventually

UNIX = "unix://"
USUAL = f"{UNIX}/var/run/docker.sock"
START = 60.0  # seconds until an engine answers
STOP = 30  # seconds until one has ended
NEEDED = ("dockerd", "slirp4netns", "unshare")
MISSING = "{} is missing; Debian: apt install docker.io slirp4netns"


class NoEngine(Exception):
    """No engine runs, and none may be started here."""


@contextmanager
def engine(socket: str | None) -> Iterator[str]:
    """Give the URL of an engine; our own ends with the block.

    Args:
        socket: of an engine that runs; None: the usual one, or else one of our own.

    Raises:
        NoEngine: none runs, and only root may start one.
        MissingService: a program is not installed.
    """
    url = socket or _running()
    if url is not None:
        yield url
        return
    _check_startable()
    folders = tempfile.TemporaryDirectory(prefix="pyspider-zk-engine-")
    with folders as folder, _own(Path(folder)) as own:
        yield own


def _check_startable() -> None:
    """Check that an engine can be started.

    Raises:
        NoEngine: not by this user.
        MissingService: not without another program.
    """
    if os.geteuid() != 0:
        raise NoEngine("no Docker engine answers, and only root may start one")
    for program in NEEDED:
        if shutil.which(program) is None:
            raise MissingService(MISSING.format(program))


def _running() -> str | None:
    """Return the URL of the engine that the environment names, if it answers."""
    url = os.environ.get("DOCKER_HOST", USUAL)
    if url.startswith(UNIX) and not Path(url.removeprefix(UNIX)).is_socket():
        return None
    try:
        docker.DockerClient(base_url=url).close()
    except DockerException:
        return None
    return url


@contextmanager
def _own(folder: Path) -> Iterator[str]:
    log = folder / "log"
    with log.open("wb") as output:
        # --kill-child: should unshare be killed, its engine is, too.
        daemon = subprocess.Popen(
            ["unshare", "--net", "--mount", "--fork", "--kill-child", *_daemon(folder)],  # noqa: S607
            stdout=output,
            stderr=output,
        )
        try:
            _await(lambda: _number(folder / "pid"), daemon, log)
            with _way_out(_number(folder / "pid"), output):
                _await((folder / "socket").exists, daemon, log)
                yield f"unix://{folder}/socket"
        finally:
            _end(daemon, _number(folder / "pid"))


def _daemon(folder: Path) -> list[str]:
    return [
        *("dockerd", "--storage-driver", "overlay2", "--host", f"unix://{folder}/socket"),
        *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        *("--pidfile", f"{folder}/pid"),
    ]


def _await(there: Callable[[], object], daemon: subprocess.Popen[bytes], log: Path) -> None:
    eventually(lambda: there() or daemon.poll() is not None, "dockerd starts", within=START)
    if daemon.poll() is not None:
        raise Unavailable(f"dockerd ended at its start; the end of its log:\n{tail(log)}")


def _number(pid: Path) -> int:
    """Return the engine's process id; 0 before it has written it."""
    return int(pid.read_text() or 0) if pid.exists() else 0


@contextmanager
def _way_out(pid: int, output: IO[bytes]) -> Iterator[None]:
    command = ["slirp4netns", "--configure", str(pid), "tap0"]
    slirp = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        slirp.terminate()
        slirp.wait()


def _end(daemon: subprocess.Popen[bytes], pid: int) -> None:
    """End the engine, which ends its containers first."""
    if pid:
        os.kill(pid, signal.SIGTERM)
    else:
        daemon.kill()
    daemon.wait(STOP)
