"""Another number of slots: nothing is lost, nothing is doubled, wherever it is interrupted."""

import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
import redis

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.protocols import CLOSED
from pyspider_zk.cluster.records import Assignment, Load, Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, BadRequest, Conflict, NotFound
from pyspider_zk.jobs.model import JobState
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.jobs.transactions import JobTree
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues import redis_reslotting
from pyspider_zk.queues.api import Message, Parked, ParkingMove, Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_reslotting import RedisReslotting
from pyspider_zk.reslot import Reslotter
from pyspider_zk.zookeeper.connection import Connection
from tests.cli.conftest import MEMBER
from tests.support.connected import connected

pytestmark = [pytest.mark.zk, pytest.mark.redis]

BEFORE = 4
PROJECTS = [f"project_{number}" for number in range(12)]
MESSAGES = 5  # of each kind and project

Received = dict[tuple[str, str], list[int]]


class ChangeInterrupted(Exception):
    """Stands for whatever ends a process in the middle."""


@pytest.fixture
def connection(cluster_settings: Settings) -> Iterator[Connection]:
    with connected(cluster_settings) as made:
        yield made


@pytest.fixture
def tree(connection: Connection, cluster_settings: Settings) -> Tree:
    found = Tree(cluster_settings.root)
    ensure_cluster(connection, found, Meta(BEFORE), lambda: 1000.0)
    return found


@dataclass
class StoppedCluster:
    """A stopped cluster, and what waits for its slots."""

    connection: Connection
    tree: Tree
    url: str

    def queues(self, slots: int) -> Queues:
        return connect(self.url, 0, slots)

    def reslotter(self, queues: RedisReslotting) -> Reslotter:
        return Reslotter(self.connection, self.tree.root, queues, lambda _: None, lambda: 2000.0)

    def change(self, slots: int, sealed: int = 0) -> None:
        with closing(RedisLink(self.url)) as link:
            self.reslotter(RedisReslotting(link)).change(slots, sealed)

    def meta(self) -> Meta:
        return Meta.decode(self.connection.get(self.tree.meta)[0])

    def table(self) -> Assignment:
        return Assignment.decode(self.connection.get(self.tree.assignment)[0])


@pytest.fixture
def bench(connection: Connection, tree: Tree, redis_url: str) -> StoppedCluster:
    return StoppedCluster(connection, tree, redis_url)


def task(project: str, number: int) -> dict[str, Any]:
    return {"project": project, "taskid": f"t{number}", "url": "data:,", "number": number}


def fill(bench: StoppedCluster) -> None:
    """Publish messages, some with tasks of several projects of a slot."""
    with closing(bench.queues(BEFORE)) as queues:
        for number in range(MESSAGES):
            by_slot: defaultdict[int, list[Any]] = defaultdict(list)
            for project in PROJECTS:
                by_slot[slot_of(project, BEFORE)].append(task(project, number))
            for slot, tasks in by_slot.items():
                packs = [Message(QueueKind.STATUS, slot, each) for each in tasks]
                queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, tasks), *packs])


def received(bench: StoppedCluster, slots: int) -> Received:
    """Return the numbers of all messages by kind and project; each is in its project's slot."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    with closing(bench.queues(slots)) as queues:
        queues.slot_queues.take(range(slots))
        for kind in QueueKind:
            for delivery in queues.slot_queues.read(kind, 10_000):
                tasks = delivery.body if isinstance(delivery.body, list) else [delivery.body]
                for each in tasks:
                    assert delivery.slot == slot_of(each["project"], slots)
                    found[kind.value, each["project"]].append(each["number"])
    return dict(found)


ALL: Received = {
    (kind.value, project): list(range(MESSAGES)) for kind in QueueKind for project in PROJECTS
}


@pytest.mark.parametrize("after", [1, 3, 4096])
def test_messages_move_to_their_new_slots_in_order(bench: StoppedCluster, after: int) -> None:
    fill(bench)

    bench.change(after)

    assert received(bench, after) == ALL
    assert bench.meta() == Meta(after)
    assert {(slot.owner, slot.epoch) for slot in bench.table().slots} == {(None, 2000)}
    assert len(bench.table().slots) == after


def test_bodies_are_in_memory_only_while_they_move(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_reslotting, "BYTES", 100_000)
    size, count = 20_000, 50
    with closing(bench.queues(BEFORE)) as queues:
        for slot in range(BEFORE):
            project = next(each for each in PROJECTS if slot_of(each, BEFORE) == slot)
            tasks = [task(project, number) | {"note": "n" * size} for number in range(count)]
            sent = [Message(kind, slot, each) for each in tasks for kind in QueueKind]
            queues.slot_queues.publish(sent)

    tracemalloc.start()
    try:
        bench.change(5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000 < BEFORE * len(QueueKind) * count * size
    assert sum(map(len, received(bench, 5).values())) == BEFORE * len(QueueKind) * count


def test_records_are_in_memory_some_at_a_time(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_reslotting, "RECORDS", 100_000)
    size = 300_000
    noted = {name: PART | {"md5sum": name[-1] * size} for name in PROJECTS}
    with closing(bench.queues(BEFORE)) as queues:
        for slot in range(BEFORE):
            own = {name: part for name, part in noted.items() if slot_of(name, BEFORE) == slot}
            queues.records.save_many({slot: {"epoch": 1000, "clean": True, "projects": own}})

    tracemalloc.start()
    try:
        bench.change(64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < len(PROJECTS) * size
    with closing(bench.queues(64)) as queues:
        assert parts(queues.records.load_many(range(64)), 64) == noted


@pytest.mark.parametrize("left", [{}, {"projects": {"gone": {}}}])
def test_what_a_cluster_with_more_slots_left_is_no_part_of_new_records(
    bench: StoppedCluster, left: dict[str, Any]
) -> None:
    leave_more(bench)
    with closing(bench.queues(64)) as queues:
        queues.records.save_many({slot: {"epoch": 900} | left for slot in range(BEFORE, 64)})

    bench.change(64)

    with closing(bench.queues(64)) as queues:
        moved = {slot_of(name, 64) for name in PROJECTS}
        assert {*parts(queues.records.load_many(moved), 64)} == {*PROJECTS}


def test_new_records_are_written_once_though_there_are_more_than_move_in_one_round_trip(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_reslotting, "BYTES", 1)
    leave_more(bench)
    writes: list[int] = []

    class NotingRecords(RedisReslotting):
        def save_records(self, records: Any) -> None:
            writes.extend(records)
            super().save_records(records)

    with closing(RedisLink(bench.url)) as link:
        bench.reslotter(NotingRecords(link)).change(2)

    assert sorted(writes) == [0, 1]


def test_there_and_back_again(bench: StoppedCluster) -> None:
    fill(bench)
    bench.change(7)
    bench.change(BEFORE)
    assert received(bench, BEFORE) == ALL


def test_what_stands_below_the_rates_of_the_old_slots_is_deleted_with_them(
    bench: StoppedCluster,
) -> None:
    bench.connection.create(f"{bench.tree.slot_rates}/note", b"junk")

    bench.change(7)

    assert bench.meta() == Meta(7)
    assert bench.connection.find(bench.tree.slot_rates) is None


STEPS = [
    "begin",
    "move_messages",
    "_move",
    "move_parked",
    "old_records",
    "save_records",
    "move_dead_letters",
    "clear",
]


@pytest.mark.parametrize(("step", "afterwards"), [*product(STEPS, [False, True]), ("end", False)])
def test_what_was_interrupted_goes_on(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch, step: str, afterwards: bool
) -> None:
    fill(bench)
    leave_more(bench)
    interrupt(monkeypatch, RedisReslotting, step, afterwards)
    with pytest.raises(ChangeInterrupted):
        bench.change(7)

    bench.change(7)

    assert received(bench, 7) == ALL
    check_more(bench, 7)
    assert bench.meta() == Meta(7)
    with redis.Redis.from_url(bench.url) as client:
        assert client.keys("reslotting*") == []


@pytest.mark.parametrize("afterwards", [False, True])
def test_interrupted_when_processes_are_let_in(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch, afterwards: bool
) -> None:
    fill(bench)
    leave_more(bench)
    interrupt(monkeypatch, Reslotter, "_open", afterwards)
    with pytest.raises(ChangeInterrupted):
        bench.change(7)

    bench.change(7)

    assert received(bench, 7) == ALL
    check_more(bench, 7)


def interrupt(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, afterwards: bool) -> None:
    """Interrupt a method once, at its second call if it is one of many."""
    method: Callable[..., Any] = getattr(kind, name)
    left = [2 if name in {"_move", "save_records"} else 1]
    monkeypatch.setattr(redis_reslotting, "BYTES", 200)
    monkeypatch.setattr(redis_reslotting, "RECORDS", 200)

    def interrupted(self: Any, *given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not afterwards:
            raise ChangeInterrupted
        result = method(self, *given)
        if left[0] == 0:
            raise ChangeInterrupted
        return result

    monkeypatch.setattr(kind, name, interrupted)


PART = {
    "md5sum": "x",
    "processing": [["t", 1, 2.0]],
    "unsent": [],
    "postponed": [],
    "bucket": [1, 2.0],
    "paused": [False, 0.0, None],
    "finishing": [False, 0],
    "active_tasks": [],
}


def leave_more(bench: StoppedCluster) -> None:
    """Park a message, leave records and a dead letter."""
    project = PROJECTS[0]
    slot = slot_of(project, BEFORE)
    with closing(bench.queues(BEFORE)) as queues:
        queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, task("odd", 0))] * 2)
        queues.slot_queues.take([slot])
        *_, parked, dead = queues.slot_queues.read(QueueKind.NEWTASK, 100, [slot])
        piece = Parked(QueueKind.NEWTASK, slot, parked.tag, project)
        queues.parking_lot.park([ParkingMove(parked, piece, task(project, 9))])
        queues.slot_queues.reject(dead, "it is odd")
        for each in range(BEFORE):
            names = [name for name in PROJECTS if slot_of(name, BEFORE) == each]
            record = {"epoch": 1000, "clean": each != 0, "projects": dict.fromkeys(names, PART)}
            queues.records.save_many({each: record})


def check_more(bench: StoppedCluster, slots: int) -> None:
    """Check that all of it is there, once and in its place."""
    with closing(bench.queues(slots)) as queues:
        (parked,) = queues.parking_lot.load(range(slots))
        assert (parked.slot, parked.project) == (slot_of(PROJECTS[0], slots), PROJECTS[0])
        assert queues.parking_lot.fetch([parked]) == {parked: task(PROJECTS[0], 9)}
        (letter,) = queues.slot_queues.dead_letters(9)
        assert (letter.slot, letter.reason) == (None, "it is odd")
        assert parts(queues.records.load_many(range(slots)), slots) == {
            name: PART if slot_of(name, BEFORE) else {"md5sum": "x", "unsent": []}
            for name in PROJECTS
        }
        assert queues.slot_queues.replay([letter.tag]) == 1
        assert queues.inbox.forward(9) == 1
        queues.slot_queues.take([slot_of("odd", slots)])
        found = queues.slot_queues.read(QueueKind.NEWTASK, 1000)
        odd = [each for each in found if task("odd", 0) in (each.body, *each.body)]
        assert len(odd) == 1
        queues.slot_queues.acknowledge(odd)


def parts(records: dict[int, dict[str, Any]], slots: int) -> dict[str, Any]:
    """Return all parts of records, each of which is clean and holds its slot's projects."""
    found: dict[str, Any] = {}
    for slot, record in records.items():
        assert (record["clean"], record["epoch"]) == (True, 2000)
        assert {slot_of(name, slots) for name in record["projects"]} == {slot}
        found |= record["projects"]
    return found


def test_epochs_go_on_above_the_seals(bench: StoppedCluster) -> None:
    bench.change(7, sealed=5000)
    assert {slot.epoch for slot in bench.table().slots} == {5000}


def test_a_cluster_that_runs_is_left_alone(
    bench: StoppedCluster, cluster_settings: Settings, eventually: Callable[..., None]
) -> None:
    member = Coordinator(replace(cluster_settings, slots=BEFORE), MEMBER, dict, Load)
    member.start()
    try:
        eventually(lambda: member.member is not None)
        with pytest.raises(Conflict, match="1 processes run"):
            bench.change(7)
    finally:
        member.stop()
    assert bench.meta() == Meta(BEFORE)


def test_operations_must_have_ended(bench: StoppedCluster) -> None:
    JobQueue(bench.connection, bench.tree.jobs).put("mine", [("p", {})])
    with pytest.raises(Conflict, match="1 jobs of operations are not done"):
        bench.change(7)
    assert bench.meta() == Meta(BEFORE)


def test_what_is_no_operation_keeps_nothing_from_being_changed(bench: StoppedCluster) -> None:
    pending = JobTree(bench.tree.jobs).place(JobState.PENDING)
    bench.connection.create(f"{pending}/note", b"of somebody")
    bench.change(7)
    assert bench.meta() == Meta(7)


@pytest.mark.parametrize("slots", [0, 16385, BEFORE])
def test_numbers_that_make_no_sense(bench: StoppedCluster, slots: int) -> None:
    with pytest.raises(BadRequest):
        bench.change(slots)
    assert bench.meta() == Meta(BEFORE)


def test_another_number_waits_until_the_first_is_done(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench)
    interrupt(monkeypatch, RedisReslotting, "move_parked", afterwards=False)
    with pytest.raises(ChangeInterrupted):
        bench.change(7)
    assert bench.meta().protocol == CLOSED

    with pytest.raises(Conflict, match="pyspider-zk slots 7"):
        bench.change(9)
    bench.change(7)
    bench.change(9)

    assert received(bench, 9) == ALL


def test_a_change_that_was_closed_for_can_be_given_up(
    bench: StoppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench)
    interrupt(monkeypatch, RedisReslotting, "begin", afterwards=False)
    with pytest.raises(ChangeInterrupted):
        bench.change(7)

    bench.change(BEFORE)

    assert bench.meta() == Meta(BEFORE)
    assert received(bench, BEFORE) == ALL


def test_a_restore_that_was_interrupted_is_not_opened(bench: StoppedCluster) -> None:
    bench.connection.set(bench.tree.meta, Meta(BEFORE, CLOSED).encode())
    bench.connection.delete(bench.tree.assignment)
    with pytest.raises(NotFound, match="complete its restore"):
        bench.change(7)
    assert bench.meta().protocol == CLOSED


@pytest.mark.parametrize("left", [None, b""])
def test_without_a_readable_assignment_the_cluster_stays_open(
    bench: StoppedCluster, left: bytes | None
) -> None:
    if left is None:
        bench.connection.delete(bench.tree.assignment)
    else:
        bench.connection.set(bench.tree.assignment, left)
    with pytest.raises(NotFound, match="start a scheduler, which writes one"):
        bench.change(7)
    assert bench.meta() == Meta(BEFORE)

    ensure_cluster(bench.connection, bench.tree, Meta(BEFORE))  # as a scheduler does
    bench.connection.set(bench.tree.assignment, Assignment.vacant(BEFORE, 1000).encode())
    bench.change(7)

    assert bench.meta() == Meta(7)


def test_a_message_that_nobody_can_read_is_a_dead_letter(bench: StoppedCluster) -> None:
    with redis.Redis.from_url(bench.url) as client:
        client.xadd("newtask_queue:1", {"body": b"\xc1"})
        client.set("status_queue:2", "no stream")
    fill(bench)

    bench.change(7)

    with closing(bench.queues(7)) as queues:
        assert queues.slot_queues.dead() == 1
    assert {key for key in received(bench, 7) if key[0] == "newtask_queue"} <= ALL.keys()


@pytest.mark.parametrize("key", ["parked:2", "parked:ready", f"parked:{slot_of(PROJECTS[0], 7)}"])
def test_what_is_parked_moves_whatever_is_in_its_place(bench: StoppedCluster, key: str) -> None:
    fill(bench)
    leave_more(bench)
    with redis.Redis.from_url(bench.url) as client:
        client.delete(key)
        client.set(key, "neither hash nor set")

    bench.change(7)

    check_more(bench, 7)


def test_a_state_of_somebody_else_is_told(bench: StoppedCluster) -> None:
    with redis.Redis.from_url(bench.url) as client:
        client.hset("reslotting", "before", "many")
    with pytest.raises(BadMessage, match="delete it"):
        bench.change(7)


def test_without_a_cluster_there_is_nothing_to_change(bench: StoppedCluster) -> None:
    bench.connection.delete(bench.tree.meta)
    with pytest.raises(NotFound, match="there is no cluster"):
        bench.change(7)
