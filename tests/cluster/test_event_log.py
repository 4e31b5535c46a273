"""The event log on a real ZooKeeper, and what the leader writes into it."""

import threading
from dataclasses import replace

import pytest

from pyspider_zk.cluster.event_log import MOVES_KEPT, EventLog, EventRecorder
from pyspider_zk.cluster.events import PAIRS_AT_ONCE, Checkpoint, Event, Moves
from pyspider_zk.cluster.leader import Leadership
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.reader import Table
from pyspider_zk.cluster.records import Meta
from pyspider_zk.cluster.rules import Hold, Rules
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.steps import Create
from pyspider_zk.zookeeper.unreadable import Unreadable
from pyspider_zk.zookeeper.waiting import boottime
from tests.support.crew import Crew, record
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

A, B = MemberId(0, "aaa"), MemberId(1, "bbb")
BOTH = {A: record(), B: record()}


@pytest.fixture
def tree(settings: Settings) -> Tree:
    """Give the names of a cluster's znodes."""
    return Tree(settings.root)


@pytest.fixture
def events(connection: Connection, tree: Tree) -> EventLog:
    """Give an empty event log."""
    return EventLog(connection, tree)


def note(number: int) -> Event:
    return Event("batch", f"number {number}", float(number))


def told(events: EventLog) -> list[tuple[str, str]]:
    return [(event.kind, event.who) for _, event in events.read()]


def test_events_are_read_after_a_number_the_oldest_first(events: EventLog):
    numbers = [events.append(note(n)) for n in range(5)]

    assert events.read(after=numbers[1], limit=2) == [(numbers[2], note(2)), (numbers[3], note(3))]
    assert events.read(limit=2) == [(numbers[3], note(3)), (numbers[4], note(4))]
    assert events.read(after=numbers[4]) == []


def test_an_empty_log_is_read(events: EventLog):
    assert events.read() == events.read(after=7) == []
    assert events.trim() == 0


def test_the_oldest_are_trimmed(events: EventLog):
    for number in range(7):
        events.append(note(number))

    assert events.trim(keep=3) == 4
    assert events.trim(keep=3) == 0

    assert [event.text for _, event in events.read()] == ["number 4", "number 5", "number 6"]


def test_what_stands_below_an_old_event_is_deleted_with_it(
    events: EventLog, connection: Connection, tree: Tree
):
    for number in range(7):
        events.append(note(number))
    oldest = min(connection.children(tree.events))
    connection.create(f"{tree.events}/{oldest}/note/of somebody", b"x")

    assert events.trim(keep=3) == 4

    assert [event.text for _, event in events.read()] == ["number 4", "number 5", "number 6"]


@pytest.mark.parametrize("name", ["event-1", "event-99999999999", "event-" + "9" * 5000])
def test_the_oldest_are_trimmed_though_somebody_put_another_name_there(
    events: EventLog, connection: Connection, tree: Tree, name: str
):
    connection.create(f"{tree.events}/{name}", note(0).encode())
    for number in range(7):
        events.append(note(number))

    assert events.trim(keep=3) == 4

    assert [event.text for _, event in events.read()] == ["number 4", "number 5", "number 6"]


def test_what_is_no_event_is_passed_over(events: EventLog, connection: Connection, tree: Tree):
    events.append(note(1))
    connection.create(f"{tree.events}/stranger", b"")
    connection.create(f"{tree.events}/event-0000000099", b"?")

    assert [event for _, event in events.read()] == [note(1)]


def test_unreadable_events_hide_none_that_come_after_them(
    events: EventLog, connection: Connection, tree: Tree, monkeypatch: pytest.MonkeyPatch
):
    first = events.append(note(1))
    junk = Create(f"{tree.events}/event-", b"?", sequence=True)
    connection.multi(*[junk] * 250)
    later = [events.append(note(number)) for number in (2, 3, 4)]
    found, looks = events.found, []
    monkeypatch.setattr(events, "found", lambda each: looks.append(each) or found(each))

    assert [number for number, _ in events.read(first, limit=2)] == later[:2]

    assert len(looks) == 3, "they are not looked at one by one"


def test_whoever_waits_is_called(events: EventLog):
    called = threading.Event()

    assert events.numbers(lambda _: called.set()) == []
    events.append(note(1))

    assert called.wait(60)


def test_the_leader_tells_each_thing_once(connection: Connection, tree: Tree, events: EventLog):
    recorder = EventRecorder(connection, tree, lambda: 7.0)
    recorder.note(Moves(3, {(None, A): 2}))
    for _ in range(3):
        recorder.record(A, BOTH)
    heir = EventRecorder(connection, tree, lambda: 8.0)
    heir.note(Moves(3, {(None, A): 2}))
    heir.record(A, BOTH)

    assert told(events) == [
        ("joined", str(A)),
        ("joined", str(B)),
        ("leader", str(A)),
        ("moved", str(A)),
    ]


def test_the_moves_of_a_long_time_without_events_are_told_in_parts(
    connection: Connection, tree: Tree, events: EventLog
):
    owners = [MemberId(number, "x" * 200) for number in range(PAIRS_AT_ONCE)]
    recorder = EventRecorder(connection, tree)
    for epoch in range(1, 21):
        recorder.note(Moves(epoch, dict.fromkeys([(None, owner) for owner in owners], 1)))
        recorder.note(Moves(epoch, {}))

    parts = [recorder.record(A, BOTH) for _ in range(20)]

    assert parts == [False] * 19 + [True]
    moved = [event for _, event in events.read(limit=10_000) if event.kind == "moved"]
    assert len({(event.who, event.data["epoch"]) for event in moved}) == len(moved) == 4000


def test_of_moves_without_number_the_latest_are_told(
    connection: Connection, tree: Tree, events: EventLog
):
    recorder = EventRecorder(connection, tree)
    for epoch in range(1, 2 * MOVES_KEPT + 1):
        recorder.note(Moves(epoch, {(None, A): 1}))

    eventually(lambda: recorder.record(A, BOTH), "everything is told")

    moved = [event for _, event in events.read(limit=10_000) if event.kind == "moved"]
    assert [event.data["epoch"] for event in moved] == [*range(MOVES_KEPT + 1, 2 * MOVES_KEPT + 1)]


def test_what_was_told_without_a_reply_is_not_told_again(
    connection: Connection, tree: Tree, events: EventLog, monkeypatch
):
    recorder = EventRecorder(connection, tree)
    multi = connection.multi

    def lose(*steps):
        multi(*steps)
        monkeypatch.undo()
        raise Unavailable("the reply is lost")

    monkeypatch.setattr(connection, "multi", lose)
    with pytest.raises(Unavailable):
        recorder.record(A, BOTH)
    recorder.record(A, BOTH)

    assert len(told(events)) == 3


def test_one_that_died_and_one_that_left_are_told_apart(
    connection: Connection, tree: Tree, events: EventLog
):
    EventRecorder(connection, tree).record(A, BOTH)
    connection.create(tree.lease(A), b"{}")

    EventRecorder(connection, tree).record(MemberId(2, "c"), {})

    assert set(told(events)[3:]) == {
        ("died", str(A)),
        ("left", str(B)),
        ("leader", "2-c"),
    }


@pytest.mark.parametrize(
    "roll",
    [b"?", Checkpoint(members=[f"{number}-a" for number in range(100_000)]).encode()],
    ids=["junk", "100,000 members"],
)
def test_a_roll_that_cannot_be_read_is_begun_anew(
    connection: Connection, tree: Tree, events: EventLog, roll: bytes
):
    connection.create(tree.events, roll)

    EventRecorder(connection, tree).record(A, BOTH)

    assert len(told(events)) == 3


def test_members_with_the_longest_descriptions_are_told_of_in_parts(
    connection: Connection, tree: Tree, events: EventLog
):
    crowd = {
        MemberId(number, "a"): replace(record(), address="".join(map(chr, range(0x4E00, 0x6E00))))
        for number in range(40)
    }
    recorder = EventRecorder(connection, tree)

    eventually(lambda: recorder.record(A, crowd), "everything is told")

    joined = [event for _, event in events.read() if event.kind == "joined"]
    assert {event.who for event in joined} == set(map(str, crowd))


def test_a_cluster_tells_its_story(crew: Crew, events: EventLog):
    one, other = crew.start_and_share(2)
    leader, follower = (one, other) if one.coordinator.leading else (other, one)
    left, stayed = leader.member, follower.member
    leader.stop()
    crew.shared_by(follower)
    eventually(lambda: ("left", str(left)) in told(events), "the leaving is told")

    story = [event for _, event in events.read()]
    kinds = [(event.kind, event.who) for event in story]
    for expected in (
        ("joined", str(left)),
        ("joined", str(stayed)),
        ("leader", str(left)),
        ("leader", str(stayed)),
        ("left", str(left)),
    ):
        assert kinds.count(expected) == 1
    moved = [event.data for event in story if event.kind == "moved"]
    assert sum(data["slots"] for data in moved if data["to"] == str(stayed)) == 12
    assert len(moved) == len({(data["from"], data["to"], data["epoch"]) for data in moved})


ALWAYS = Hold(float("-inf"), float("inf"))


def leadership(connection: Connection, tree: Tree, slots: int) -> Leadership:
    known = (lambda _: None, Table(tree.assignment, slots, Unreadable()), lambda: None)
    return Leadership(connection, tree, Rules(), boottime, *known)


def test_who_leads_again_tells_so_again(
    connection: Connection, settings: Settings, tree: Tree, events: EventLog
):
    ensure_cluster(connection, tree, Meta(settings.slots))
    connection.ensure([tree.lease(A), tree.lease(B)])
    one, other = (leadership(connection, tree, settings.slots) for _ in range(2))
    one.lead(A, dict, ALWAYS)
    other.lead(B, dict, ALWAYS)
    connection.delete(f"{tree.election}/{one._candidacy}")
    other.lead(B, dict, ALWAYS)
    one.lead(A, dict, ALWAYS)
    other.withdraw()

    one.lead(A, dict, ALWAYS)

    assert told(events) == [("leader", str(A)), ("leader", str(B)), ("leader", str(A))]


def test_a_member_that_dies_is_told(settings: Settings, events: EventLog):
    crew = Crew(replace(settings, slots=4))
    try:
        heir, dead = crew.start_and_share(2, mortal=[1])
        dead.die()
        dead.coordinator.connection.stop()
        crew.shared_by(heir)
        eventually(lambda: ("died", str(dead.member)) in told(events), "the death is told")
    finally:
        crew.stop()
