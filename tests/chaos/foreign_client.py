"""What others do to a cluster: to its znodes, with a client of their own, and to its schedulers."""

import base64
import logging
import operator
import socket
import threading
import xmlrpc.client
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from pyspider_zk.cluster.tree import Tree
from tests.chaos.services import SECRET

PATIENCE = 2.0
"""Seconds for all requests of one deed: the next fault is due soon, and may hit ZooKeeper."""

_QUOTA = f"/zookeeper/quota{Tree().root}"
_LIMITS, _USAGE = f"{_QUOTA}/zookeeper_limits", f"{_QUOTA}/zookeeper_stats"
_HARD = b"count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=1"
_STRAY = "not-yours"


def _told(deed: Callable[["ForeignClient"], None]) -> Callable[["ForeignClient"], bool]:
    """Have a deed tell whether it holds now, instead of failing."""

    def do(client: "ForeignClient") -> bool:
        try:
            deed(client)
        except (KazooException, KazooTimeoutError):
            return False
        return True

    return do


class ForeignClient:
    """Session of somebody else. Threads: the main one only.

    What fails is told by False, and may be done in part; nothing is done twice by another try.
    """

    def __init__(self, hosts: str) -> None:
        quiet = logging.getLogger("tests.chaos.kazoo")
        retry = {"max_tries": -1, "max_delay": 0.5}
        self._client = KazooClient(hosts, timeout=5.0, connection_retry=retry, logger=quiet)
        self._strays: set[str] = set()

    def start(self, patience: float) -> None:
        self._client.start(patience)

    def stop(self) -> None:
        """Disconnect."""
        self._client.stop()
        self._client.close()

    @_told
    def set_quota(self) -> None:
        """Allow the cluster not one znode or byte more than it has."""
        for parent in ("/zookeeper/quota", _QUOTA):
            self._create([parent])
        self._create([_LIMITS], _HARD)
        self._create([_USAGE], b"count=1000,bytes=1000000")

    @_told
    def lift_quota(self) -> None:
        """Allow it anything again."""
        self._delete([_LIMITS, _USAGE])

    @_told
    def put_strays(self) -> None:
        """Put a znode below each of the cluster's that can have one."""
        paths = [f"{path}/{_STRAY}" for path in self._persistent()]
        self._strays.update(paths)  # before, for a request without an answer may have been done
        self._create(paths)

    @_told
    def remove_strays(self) -> None:
        """Delete what the cluster did not."""
        self._delete(self._strays)
        self._strays.clear()

    def _persistent(self) -> Iterator[str]:
        """Return the paths of all znodes of the cluster that may have children."""
        level = [Tree().root]
        while level:
            look = self._client.get_children_async
            asked = [(path, look(path, include_data=True)) for path in level]
            level = []
            for path, (names, stat) in filter(operator.itemgetter(1), self._answers(asked)):
                if not stat.ephemeralOwner:
                    yield path
                    level += [f"{path}/{name}" for name in names]

    def _create(self, paths: Iterable[str], data: bytes = b"") -> None:
        self._do(self._client.create_async, paths, data)

    def _delete(self, paths: Iterable[str]) -> None:
        self._do(self._client.delete_async, paths)

    def _do(self, request: Callable[..., Any], paths: Iterable[str], *more: Any) -> None:
        list(self._answers([(path, request(path, *more)) for path in list(paths)]))

    def _answers(self, asked: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Return what was answered; None if the znode came or went meanwhile, or was there."""
        for path, answer in asked:
            try:
                yield path, answer.get(timeout=PATIENCE)
            except (NoNodeError, NodeExistsError):
                yield path, None


GAP = 0.2
"""Seconds between two questions."""

_QUESTION = xmlrpc.client.dumps((0, 1), "list_events").encode()
_HEAD = (
    "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: text/xml\r\nAuthorization: Basic {}\r\n"
    "Content-Length: {}\r\n\r\n"
)


def keep_asking(address: str, quiet: threading.Event) -> threading.Thread:
    """Ask a scheduler from now until an event is set; return the thread that does."""
    thread = threading.Thread(
        target=_ask, args=(address, quiet), name=f"asks {address}", daemon=True
    )
    thread.start()
    return thread


def _ask(address: str, quiet: threading.Event) -> None:
    """Ask again and again; no answer is waited for, but each link stays until the end."""
    host, _, port = address.rpartition(":")
    login = base64.b64encode(f"chaos:{SECRET}".encode()).decode()
    question = _HEAD.format(address, login, len(_QUESTION)).encode() + _QUESTION
    with ExitStack() as links:
        while not quiet.wait(GAP):
            with suppress(OSError):  # it may have been killed meanwhile
                link = links.enter_context(socket.create_connection((host, int(port)), 0.5))
                link.sendall(question)
