"""A network of our own: a hub, and a namespace for each node whose packets are dropped.

Nothing of it touches the machine's own network. The names carry the process id of their maker, so
what a killed run left behind can be told from what runs, and is removed by the next run.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Self

from pyspider_zk.errors import MissingService

_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_OURS = re.compile(r"(?:pzc|atk)(\d+)-\w+")
_PREFIX = "10.203.77"
_CHAIN = "chain {hook}_ {{ type filter hook {hook} priority 0; ip {side} {{ {others} }} {then}; }};"
HUB_ADDRESS = f"{_PREFIX}.1"


_NEEDED = {"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux"}
_REFUSED = ("Operation not permitted", "Permission denied")


NOT_PERMITTED = 77  # EX_NOPERM of sysexits.h
MISSING = 69  # EX_UNAVAILABLE


class NotPermitted(Exception):
    """This machine does not let us make namespaces or packet filters."""


class Direction(StrEnum):
    """Which packets are dropped, seen from the node."""

    BOTH = "both"
    IN = "in"
    OUT = "out"


class Network:
    """Namespaces joined by a bridge, from construction until the ``with`` block ends.

    Args:
        nodes: their names; each gets an address and an interface of its own.
        suite: what the names of the namespaces begin with, one of those in ``_OURS``.
    """

    def __init__(self, nodes: Sequence[str], suite: str = "pzc") -> None:
        self._tag = f"{suite}{os.getpid()}"
        self._addresses = {name: f"{_PREFIX}.{10 + n}" for n, name in enumerate(nodes)}
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY)

    def __enter__(self) -> Self:
        check_permission()
        sweep()
        try:
            self._make()
            _enter(os.open(_NAMESPACES / self._name("hub"), os.O_RDONLY))
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _enter(self._home)
        self._remove()

    def address(self, node: str) -> str:
        return self._addresses[node]

    def inside(self, node: str) -> list[str]:
        """Return what to put before a command that runs in a node."""
        return ["nsenter", f"--net={_NAMESPACES / self._name(node)}", "--"]

    @contextmanager
    def entered(self, node: str) -> Iterator[None]:
        """Be in a node while the block runs: this thread, and what it starts meanwhile."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _enter(os.open(_NAMESPACES / self._name(node), os.O_RDONLY))
        try:
            yield
        finally:
            _enter(before)

    def drop(self, node: str, peers: Iterable[str], direction: Direction) -> None:
        """Drop silently what goes between a node and others; nobody is told, nothing is reset."""
        others = ", ".join(self._addresses[peer] for peer in peers)
        chains = ""
        if direction is not Direction.OUT:
            chains += _CHAIN.format(hook="input", side="saddr", others=others, then="drop")
        if direction is not Direction.IN:
            chains += _CHAIN.format(hook="output", side="daddr", others=others, then="drop")
        self._filter(node, chains)

    def reset(self, node: str, peers: Iterable[str]) -> None:
        """Reset all links from a node to others, those that it has and those that it tries."""
        others = ", ".join(self._addresses[peer] for peer in peers)
        then = "meta l4proto tcp reject with tcp reset"
        self._filter(node, _CHAIN.format(hook="output", side="daddr", others=others, then=then))

    def _filter(self, node: str, chains: str) -> None:
        _run([*self.inside(node), "nft", f"table inet chaos {{ {chains} }}"])

    def heal(self, node: str) -> None:
        """Let everything through again."""
        _run([*self.inside(node), "nft", "delete table inet chaos"])

    def _name(self, node: str) -> str:
        return f"{self._tag}-{node}"

    def _make(self) -> None:
        hub = self._name("hub")
        _ip("netns", "add", hub)
        _ip("-n", hub, "link", "set", "lo", "up")
        _ip("-n", hub, "link", "add", "br0", "type", "bridge")
        _ip("-n", hub, "addr", "add", f"{HUB_ADDRESS}/24", "dev", "br0")
        _ip("-n", hub, "link", "set", "br0", "up")
        for node in self._addresses:
            self._join(node, hub)

    def _join(self, node: str, hub: str) -> None:
        name = self._name(node)
        _ip("netns", "add", name)
        peer = ("peer", "name", "eth0", "netns", name)
        _ip("-n", hub, "link", "add", f"v-{node}", "type", "veth", *peer)
        _ip("-n", hub, "link", "set", f"v-{node}", "master", "br0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "addr", "add", f"{self._addresses[node]}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")

    def _remove(self) -> None:
        for node in (*self._addresses, "hub"):
            _remove(self._name(node))


def check_permission() -> None:
    """Make one namespace with one packet filter, and remove it.

    Raises:
        MissingService: a program is not installed.
        NotPermitted: the kernel refused, or we are not root.
        subprocess.CalledProcessError: a program failed for another reason; no excuse.
    """
    if os.geteuid() != 0:
        raise NotPermitted("root is needed")
    for program, package in _NEEDED.items():
        _require(program, package)
    name = f"pzc{os.getpid()}-probe"
    try:
        _ip("netns", "add", name)
        _run(["ip", "netns", "exec", name, "nft", "table inet chaos { }"])
    except subprocess.CalledProcessError as error:
        if any(word in error.stderr for word in _REFUSED):
            raise NotPermitted(error.stderr.strip()) from error
        raise
    finally:
        _remove(name)


def if_permitted(run: Callable[[], int]) -> int:
    """Return what a run returns, or ``NOT_PERMITTED`` or ``MISSING``, with a line that says why."""
    try:
        check_permission()
        return run()
    except NotPermitted as reason:
        print(f"this is not permitted here: {reason}", file=sys.stderr)  # noqa: T201
        return NOT_PERMITTED
    except MissingService as missing:
        print(f"this cannot run here: {missing}", file=sys.stderr)  # noqa: T201
        return MISSING


def sweep() -> None:
    """Remove the namespaces of runs whose process is gone, and what still runs in them."""
    names = sorted(path.name for path in _NAMESPACES.glob("*"))
    for name in names:
        made = _OURS.fullmatch(name)
        if made and not Path(f"/proc/{made[1]}").exists():
            _remove(name)


def _remove(name: str) -> None:
    """Remove a namespace; its interfaces go with it once the last process in it ended."""
    if not (_NAMESPACES / name).exists():
        return
    inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)  # noqa: S607
    for pid in map(int, inside.stdout.split()):
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    _ip("netns", "del", name)


def _enter(namespace: int) -> None:
    """Move this thread, and those that it starts from now on, into a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)


def _require(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise MissingService(f"{program} is missing; Debian/Ubuntu: apt install {package}")


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        error.add_note(done.stderr.strip())
        raise error
