"""Znodes, mutated from those of a running cluster."""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from tests.fuzz.inputs import Answered, Input, Surface
from tests.fuzz.mutate import mutate_bytes, mutate_record, pick

NAME = "records"
LIMIT = 900_000  # bytes; ZooKeeper refuses 1 MiB
KEPT = 30  # inputs after which an operator puts away what was written
_INCARNATION = re.compile(r"\d+-[0-9a-f]{12}")
_SHARED = ("assignment", "scale")
"""What there is one of, and all need; it is written over seldom, and mended soon."""


def snapshot(zk: KazooClient, root: str) -> dict[str, bytes]:
    """Return the records of a cluster by their paths below its root."""
    return dict(sorted(_below(zk, root, root)))


def _below(zk: KazooClient, root: str, path: str) -> Iterator[tuple[str, bytes]]:
    with suppress(NoNodeError):
        data, _ = zk.get(path)
        name = path.removeprefix(root).lstrip("/")
        if name and name != "meta":  # who changes the number of slots founds another cluster
            yield name, data
        for child in zk.get_children(path):
            yield from _below(zk, root, f"{path}/{child}")


@dataclass(frozen=True)
class _Written:
    path: str
    former: bytes | None  # None: nothing stood there
    version: int


def surface(zk: KazooClient, root: str, corpus: Mapping[str, bytes]) -> Surface:
    """Return the surface of a cluster's znodes.

    Args:
        zk: connected.
        root: of the cluster.
        corpus: records by their paths below the root.
    """
    written: deque[_Written] = deque()
    here = _names(corpus)

    def draw(chance: Random) -> Input:
        made = _drawn(corpus, chance)
        path, data = made.parts["path"], made.parts["data"]
        for place, name in here.items():
            path, data = path.replace(name, place), data.replace(name.encode(), place.encode())
        return replace(made, parts={**made.parts, "path": path, "data": data})

    def send(what: Input) -> Answered:
        path, data = what.parts["path"], what.parts["data"]
        for place, name in here.items():
            path, data = path.replace(place, name), data.replace(place.encode(), name.encode())
        try:
            return Answered(_put(zk, f"{root}/{path}", data, what.parts["how"], written))
        except KazooException as error:
            return Answered(type(error).__name__)
        finally:
            while len(written) > KEPT:
                _mend(zk, written.popleft())

    def rest() -> None:
        while written:
            _mend(zk, written.popleft())

    return Surface(NAME, draw, send, rest)


def _names(corpus: Mapping[str, bytes]) -> dict[str, str]:
    """Return the members' and components' names by what stands for them in an input.

    They differ from cluster to cluster, and an input must mean the same in another one.
    """
    found: dict[str, str] = {}
    for path in sorted(corpus):
        parent, _, name = path.rpartition("/")
        if parent == "members":
            found[f"[member {name.partition('-')[0]}]"] = name
        elif parent.startswith("components/"):
            found[f"[{parent.rpartition('/')[2]}]"] = name
    return found


def _drawn(corpus: Mapping[str, bytes], chance: Random) -> Input:
    path = pick(chance, [name for name in corpus if name not in _SHARED])
    if chance.random() < 0.04:
        path = pick(chance, [name for name in _SHARED if name in corpus] or [path])
    data = mutate_record(corpus[path], chance)[:LIMIT]
    if path == "scale":
        data = b"x" + data  # a number would be obeyed
    how = pick(chance, ("over", "beside"))
    if how == "beside" or path in ("", "members", "leases"):
        how, path = "beside", _beside(path, chance)
    kind = f"{how} {path.partition('/')[0]:.30}"
    return Input(NAME, kind, {"path": path, "how": how, "data": data})


def _beside(path: str, chance: Random) -> str:
    """Return a place next to a record: of a name like its own, or like nothing."""
    parent, _, name = path.rpartition("/")
    if chance.random() < 0.5:
        name = _INCARNATION.sub(f"{chance.randint(10, 99)}-{chance.getrandbits(48):012x}", name)
        name = re.sub(r"\d{10}$", lambda _: f"{chance.randint(900_000, 999_999):010d}", name)
    else:
        raw = mutate_bytes(name.encode(), chance).decode("utf-8", "replace")
        name = re.sub(r"[\x00-\x1f\x7f-\x9f/\ud800-\uf8ff\ufff0-\uffff]", "_", raw).strip(".")[:500]
    return f"{parent}/{name or 'x'}".lstrip("/")


def _put(zk: KazooClient, path: str, data: bytes, how: str, written: deque[_Written]) -> str:
    if how == "beside":
        zk.create(path, data, makepath=True)
        written.append(_Written(path, None, 0))
        return "created"
    former, _ = zk.get(path)
    stat = zk.set(path, data)
    written.append(_Written(path, former, stat.version))
    return "written over"


def _mend(zk: KazooClient, what: _Written) -> None:
    """Do what an operator does, unless the cluster did already: the version tells."""
    with suppress(KazooException):
        if what.former is None:
            zk.delete(what.path, recursive=True)
        else:
            zk.set(what.path, what.former, version=what.version)
