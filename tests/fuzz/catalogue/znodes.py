"""Bad input into every znode."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.events import Checkpoint
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.controller import WorkerController
from pyspider_zk.errors import ClusterError
from pyspider_zk.groups.group import Holder
from tests.fuzz.catalogue import junk
from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import Grip

READ = (Place.UNREADABLE, Place.LOG)
PASSING = (*READ, Place.GONE)  # the cluster may sweep it away, or write over it
IGNORED = (Place.NOBODY,)

_PARENTS: dict[str, tuple[str, tuple[Place, ...]]] = {
    "members": ("{root}/members", READ),
    "leases": ("{root}/leases", PASSING),
    "acks": ("{root}/acks", IGNORED),  # an acknowledgement is asked for by its member's name
    "election": ("{root}/election", PASSING),
    "ids": ("{root}/ids", READ),
    "processors": ("{root}/components/processor", READ),
    "pending jobs": ("{root}/jobs/pending", READ),
    "running jobs": ("{root}/jobs/running", READ),
    "done jobs": ("{root}/jobs/done", READ),
    "batches": ("{root}/jobs/batches", READ),
    "events": ("{root}/events", READ),
}
"""Where children stand that are read by name."""

_RECORDS: dict[str, tuple[str, tuple[Place, ...]]] = {
    "a member": ("{root}/members/7{n}-{n:012x}", READ),
    "a lease without a member": ("{root}/leases/8{n}-{n:012x}", PASSING),
    "a fetcher": ("{root}/components/fetcher/junk-{n}", READ),
    "a pending job": ("{root}/jobs/pending/entry-500-b{n}:_{n}-{n:010d}", READ),
    "a batch": ("{root}/jobs/batches/b{n}", READ),
    "an event": ("{root}/events/event-{n:010d}", READ),
}
"""Znodes whose names are right; what they say is not."""

_EVENTS_BEGIN = 900_000  # far from the numbers of the cluster's own events


def entries() -> Iterator[Poison]:
    """Yield everything that is put into ZooKeeper."""
    yield from _strays()
    yield from _records()
    yield from _singletons()
    yield from _assignments()
    yield from _own_records()
    yield from _beside()
    yield from _groups()


def _strays() -> Iterator[Poison]:
    for where, (path, shown) in _PARENTS.items():
        for name in junk.NAMES:
            brief = name if len(name) < 30 else f"a name of {len(name)} characters"
            put = partial(_stray, path, name)
            is_good = where == "ids" and name.isdigit()  # a number that nobody has
            places = (Place.NOBODY,) if is_good else shown
            yield Poison("znodes", f"{brief!r} among {where}", put, places)


def _stray(path: str, name: str, grip: Grip) -> Put:
    full = f"{path.format(root=grip.tree.root)}/{name}"
    grip.write(full, b"")
    return Put(full, data=b"")


def _records() -> Iterator[Poison]:
    numbers = iter(range(_EVENTS_BEGIN, 2 * _EVENTS_BEGIN))
    for what, (path, shown) in _RECORDS.items():
        for kind, data in junk.ZNODES.items():
            put = partial(_write, path, data, next(numbers))
            # A lease of a newer version is a good one: unknown keys are ignored.
            is_good = what == "a lease without a member" and kind == "a foreign version"
            places = (Place.NOBODY,) if is_good else shown
            yield Poison("znodes", f"{what} says {kind}", put, places)


def _write(path: str, data: bytes, number: int, grip: Grip) -> Put:
    full = path.format(root=grip.tree.root, n=number)
    grip.write(full, data)
    return Put(full, data=data)


def _singletons() -> Iterator[Poison]:
    """Yield junk in znodes that there is one of."""
    for where, path, shown in (
        ("the assignment", "{root}/assignment", READ),
        ("what was told of events", "{root}/events", PASSING),
        ("the rates of slots", "{root}/slot-rates", PASSING),
    ):
        for kind, data in junk.ZNODES.items():
            put = partial(_write, path, data, 0)
            # Rates of a newer version are good ones: unknown keys are ignored.
            is_good = where == "the rates of slots" and kind == "a foreign version"
            places = IGNORED if is_good else shown
            yield Poison("znodes", f"{where} says {kind}", put, places, spot=where)
    for kind, data in junk.ZNODES.items():
        put = partial(_write, "{root}/scale", data, 0)
        yield Poison("znodes", f"the scale says {kind}", put, READ, "scale", _mend_scale)

        shown = IGNORED if kind == "a foreign version" else READ  # which may have other settings
        put = partial(_write, "{root}/settings", data, 0)
        name = f"the settings of the cluster say {kind}"
        yield Poison("znodes", name, put, shown, "settings", _mend_settings)

    put = partial(_write, "{root}/settings", b'{"moves": %s}' % (b"9" * 400), 0)
    name = "the settings of the cluster say a number of 400 digits"
    yield Poison("znodes", name, put, READ, "settings", _mend_settings)

    crowd = Checkpoint(members=[f"{number}-a" for number in range(100_000)]).encode()
    put, spot = partial(_write, "{root}/events", crowd, 0), "what was told of events"
    yield Poison("znodes", f"{spot} names 100,000 members", put, PASSING, spot)


def _mend_settings(grip: Grip) -> None:
    grip.write(grip.tree.settings, ClusterSettings().encode())


def _mend_scale(grip: Grip) -> None:
    grip.write(grip.tree.scale, b"3")


def _assignments() -> Iterator[Poison]:
    """Yield tables that are JSON of the right form and cannot be right."""
    owner = "0-000000000000"
    rows = [[0, 1, -1]] * 256
    tables: dict[str, object] = {
        "no slots": {"epoch": 1, "members": [owner], "slots": []},
        "one slot too few": {"epoch": 1, "members": [owner], "slots": rows[1:]},
        "one slot too many": {"epoch": 1, "members": [owner], "slots": [*rows, rows[0]]},
        "an owner that it does not name": {"epoch": 1, "members": [], "slots": rows},
        "an owner before the first": {"epoch": 1, "members": [owner], "slots": [[-9, 1, -1]] * 256},
        "members that are none": {"epoch": 1, "members": [7, None, "x"], "slots": rows},
        "negative epochs": {"epoch": -5, "members": [owner], "slots": [[0, -5, -1]] * 256},
        "epochs of text": {"epoch": "x", "members": [owner], "slots": [[0, "x", -1]] * 256},
        "rows of two": {"epoch": 1, "members": [owner], "slots": [[0, 1]] * 256},
        "rows that are none": {"epoch": 1, "members": [owner], "slots": [None] * 256},
        "rows in a mapping": {"epoch": 1, "members": [owner], "slots": {"0": [0, 1, -1]}},
    }
    for what, table in tables.items():
        put = partial(_write, "{root}/assignment", json.dumps(table).encode(), 0)
        yield Poison("znodes", f"the assignment has {what}", put, READ, spot="the assignment")


def _own_records() -> Iterator[Poison]:
    """Yield junk over what a living member wrote."""
    for kind, data in junk.ZNODES.items():
        lease = partial(_over, Tree.lease, data)
        yield Poison("znodes", f"a member's own lease says {kind}", lease, PASSING, spot="lease")
        ack = partial(_over, Tree.ack, data)
        shown = (*PASSING, Place.NOBODY)  # it is read only while the member gives slots up
        yield Poison("znodes", f"a member's releases say {kind}", ack, shown, spot="ack")
    for kind in ("a word", "parts of the wrong types", "nested 100,000 deep", "nothing"):
        record = _Kept(kind)
        name = f"a member's own record says {kind}"
        yield Poison("znodes", name, record.put, PASSING, "own", record.back)


def _over(path_of: Callable[[Tree, object], str], data: bytes, grip: Grip) -> Put:
    path = path_of(grip.tree, grip.members[0])
    if not grip.zk.exists(path):  # it has another incarnation by now
        return Put(path, data=data)
    grip.zk.set(path, data)
    return Put(path, data=data)


class _Kept:
    """A record of the last member that is put back as it was."""

    def __init__(self, kind: str) -> None:
        self._data = junk.ZNODES[kind]
        self._former = b""

    def put(self, grip: Grip) -> Put:
        """Write junk over it."""
        path = grip.tree.member(grip.members[-1])
        if grip.zk.exists(path):  # else it has another incarnation by now
            self._former = grip.zk.get(path)[0]
            grip.zk.set(path, self._data)
        return Put(path, data=self._data)

    def back(self, grip: Grip) -> None:
        """Write what stood there, unless somebody did already."""
        path = grip.tree.member(grip.members[-1])
        if grip.zk.exists(path) and grip.zk.get(path)[0] == self._data:
            grip.zk.set(path, self._former)


def _beside() -> Iterator[Poison]:
    """Yield znodes where nobody looks, and those that only stand in the way of a deletion."""
    for path in (
        "{root}/note",
        "{root}/meta/note",
        "{root}/assignment/note",
        "{root}/components/note",
        "{root}/components/fetchers/note",
        "{root}/jobs/note",
        "{root}/jobs/claimants/note",
        "{root}/scale/note",
        "{root}/settings/note",
        "{root}/slot-rates/note",
        "{root}/groups/note",
    ):
        place = path.removeprefix("{root}/")
        put = partial(_write, path, b"\xff", 0)
        yield Poison("znodes", f"{place} stands where nothing should", put, IGNORED)
    for where in ("leases", "acks"):
        put = partial(_below_own, where)
        yield Poison("znodes", f"a child below a member's own of {where}", put, IGNORED)
        put = partial(_below_visitor, where)
        name = f"a child below the {where} of one that dies"
        yield Poison("znodes", name, put, (Place.GONE, Place.LOG), stage="visit")
    yield Poison("znodes", "a child below an old event", _below_event, IGNORED)
    yield Poison("znodes", "300 strays among pending jobs", partial(_many, "jobs/pending"), READ)
    yield Poison("znodes", "300 strays among members", partial(_many, "members"), READ)


def _below_own(where: str, grip: Grip) -> Put:
    path = f"{grip.tree.root}/{where}/{grip.members[0]}/note"
    if grip.zk.exists(path.rpartition("/")[0]):
        grip.write(path, b"junk")
    return Put(path)


def _below_visitor(where: str, grip: Grip) -> Put:
    path = f"{grip.tree.root}/{where}/{grip.visitor}/note/deeper"
    grip.write(path, b"junk")
    return Put(path, data=b"junk")


def _below_event(grip: Grip) -> Put:
    first = min(name for name in grip.zk.get_children(grip.tree.events) if "event-" in name)
    path = f"{grip.tree.events}/{first}/note"
    grip.write(path, b"junk")
    return Put(path)


def _many(where: str, grip: Grip) -> Put:
    stem = grip.fresh("flood")
    for number in range(300):
        grip.zk.create_async(f"{grip.tree.root}/{where}/{stem}_{number}", b"junk", makepath=True)
    grip.zk.sync(grip.tree.root)
    return Put(stem)


def _groups() -> Iterator[Poison]:
    """Yield junk below a group's name; whoever joins must hear of it or join all the same."""
    for kind in ("nothing", "a word", "nested 100,000 deep", "parts of the wrong types", "NaN"):
        put = partial(_group, junk.ZNODES[kind])
        yield Poison("znodes", f"a group's holder says {kind}", put, (Place.ANSWER,))
    put = partial(_group, Holder("another run", "gone").encode())
    yield Poison("znodes", "a group's holder has no home", put, (Place.ANSWER,))


def _group(data: bytes, grip: Grip) -> Put:
    name = grip.fresh("group")
    path = f"{grip.tree.root}/groups/{name}/holder"
    grip.write(path, data)
    settings: Settings = replace(grip.cluster.settings, session=1.0)  # it waits so long
    try:
        with WorkerController(settings, name) as joined:
            return Put(path, refused=True, said=f"joined as {joined.number}")
    except ClusterError as error:
        return Put(path, refused=True, said=str(error))
    except Exception as error:
        return Put(path, refused=False, said=f"{type(error).__name__}: {error}")
