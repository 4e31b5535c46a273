"""Backup and restore of a real ZooKeeper."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from pyspider_zk.backup import znodes
from pyspider_zk.backup.content import Backup, left_out
from pyspider_zk.backup.znodes import read_cluster, write_cluster
from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.protocols import CLOSED
from pyspider_zk.cluster.records import (
    Assignment,
    Component,
    ComponentKind,
    LeaseTerms,
    Load,
    Meta,
)
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Conflict, Mismatch, NotFound, Unavailable
from pyspider_zk.jobs.model import Claim, Claimant, JobState, Outcome
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.zookeeper.connection import Connection
from tests.cli.conftest import MEMBER

pytestmark = pytest.mark.zk


class Interrupted(Exception):
    """Stands for whatever ends a process in the middle."""


def elsewhere(tree: Tree) -> Tree:
    return Tree(f"{tree.root}-restored")


def events_of(connection: Connection, tree: Tree) -> list[str]:
    return [event.text for _, event in EventLog(connection, tree).read()]


def taken(jobs: JobQueue, claimant: str, room: int) -> list[Claim]:
    return jobs.take(Claimant(claimant), lambda _: True, room)


@pytest.fixture
def backup(connection: Connection, founded: Tree) -> Backup:
    return read_cluster(connection, founded.root)


def test_everything_durable_comes_back(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    tree = elsewhere(founded)

    epoch = write_cluster(connection, tree.root, backup, replace=False, clock=lambda: 5000.0)

    assert epoch == 5000
    assert connection.get(f"{tree.ids}/0")[0] == b"first"
    assert connection.get(tree.scale)[0] == b"3"
    assert Meta.decode(connection.get(tree.meta)[0]) == Meta(8)
    table = Assignment.decode(connection.get(tree.assignment)[0], 8)
    assert {(slot.owner, slot.epoch) for slot in table.slots} == {(None, 5000)}
    assert events_of(connection, tree) == [f"member {number} joined" for number in range(3)]


def test_later_events_follow_those_that_were_restored(
    connection: Connection, founded: Tree, events: EventLog
) -> None:
    for _ in range(3):  # the numbers of what is kept are higher than how many it is
        events.trim(keep=0)
        events.append(Event("drain", "it was trimmed", 9.0))
    backup, tree = read_cluster(connection, founded.root), elsewhere(founded)
    write_cluster(connection, tree.root, backup, replace=False)

    EventLog(connection, tree).append(Event("run", "it is new", 10.0))

    assert events_of(connection, tree) == ["it was trimmed", "it is new"]


@pytest.mark.parametrize(
    ("sealed", "now", "epoch"), [(7, 5.0, 1000), (7000, 5.0, 7000), (7000, 9000.5, 9000)]
)
def test_epochs_go_on_above_all_that_ever_were(
    connection: Connection, founded: Tree, backup: Backup, sealed: int, now: float, epoch: int
) -> None:
    tree = elsewhere(founded)
    write_cluster(connection, tree.root, backup, replace=False, sealed=sealed, clock=lambda: now)
    table = Assignment.decode(connection.get(tree.assignment)[0])
    assert {slot.epoch for slot in table.slots} == {epoch}


def test_a_cluster_that_is_there_is_kept(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    with pytest.raises(Conflict, match="--replace"):
        write_cluster(connection, founded.root, backup, replace=False)
    assert Meta.decode(connection.get(founded.meta)[0]) == Meta(8)


STRAYS = [
    *("events/event-1", "events/event-" + "9" * 5000, "events/event-0000000001/note"),
    *("assignment/note", "meta/note", "jobs/pending/note", "jobs/done/note"),
]


@pytest.mark.parametrize("stray", STRAYS, ids=[f"{stray:.30}" for stray in STRAYS])
def test_what_somebody_put_beside_or_below_is_left_out(
    connection: Connection, founded: Tree, stray: str
) -> None:
    connection.create(f"{founded.root}/{stray}", b"junk")
    told, before = events_of(connection, founded), read_cluster(connection, founded.root)

    write_cluster(connection, founded.root, before, replace=True)

    assert stray in left_out(before)
    assert events_of(connection, founded) == told
    assert Meta.decode(connection.get(founded.meta)[0]) == Meta(8)


def test_what_came_after_the_backup_is_gone(
    connection: Connection, founded: Tree, backup: Backup, events: EventLog
) -> None:
    connection.create(f"{founded.ids}/1", b"second")
    events.append(Event("drain", "afterwards", 9.0))

    write_cluster(connection, founded.root, backup, replace=True)

    assert connection.children(founded.ids) == ["0"]
    assert "afterwards" not in events_of(connection, founded)


def test_no_cluster_has_no_backup(connection: Connection, tree: Tree) -> None:
    with pytest.raises(NotFound, match="there is no cluster"):
        read_cluster(connection, tree.root)


@pytest.fixture
def member(cluster_settings: Settings) -> Iterator[Coordinator]:
    running = Coordinator(replace(cluster_settings, slots=8), MEMBER, dict, Load)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def test_nothing_is_replaced_while_a_member_runs(
    connection: Connection, founded: Tree, backup: Backup, member: Coordinator, eventually
) -> None:
    eventually(lambda: member.member is not None)
    with pytest.raises(Conflict, match="1 processes run"):
        write_cluster(connection, founded.root, backup, replace=True)
    assert Meta.decode(connection.get(founded.meta)[0]) == Meta(8)


def test_nothing_is_replaced_while_a_component_runs(
    connection: Connection, founded: Tree, backup: Backup, cluster_settings: Settings
) -> None:
    settings = replace(cluster_settings, slots=8)
    record = Component("box-2", 22, "0.1.0", started=1000.0)
    with (
        Presence(settings, ComponentKind.PROCESSOR, record),
        pytest.raises(Conflict, match="processor"),
    ):
        write_cluster(connection, founded.root, backup, replace=True)


def test_the_lease_of_a_member_that_died_is_waited_for(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    connection.create(f"{founded.leases}/0-a", Load(lease=7.0).encode())
    connection.create(f"{founded.leases}/1-b", b"unreadable")
    waited: list[float] = []

    write_cluster(connection, founded.root, backup, replace=True, wait=waited.append)

    (seconds,) = waited
    assert seconds > 600  # nobody knows how long the second one lasts
    assert connection.children(founded.leases) == []


def test_a_lease_that_was_left_is_not_waited_for(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    connection.create(f"{founded.leases}/0-a", LeaseTerms(lease=60.0, left=True).encode())
    waited: list[float] = []

    write_cluster(connection, founded.root, backup, replace=True, wait=waited.append)

    assert waited == []


def test_what_is_no_process_keeps_nothing_from_being_replaced(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    connection.create(f"{founded.members}/note", b"of somebody")
    connection.create(f"{founded.components}/{ComponentKind.FETCHER}/note", b"of somebody")

    write_cluster(connection, founded.root, backup, replace=True, wait=lambda _: None)

    assert Meta.decode(connection.get(founded.meta)[0]) == Meta(8)


def test_a_lease_that_is_renewed_stops_it(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    lease = connection.create(f"{founded.leases}/0-a", Load(lease=7.0).encode())
    renew = partial(connection.set, lease, Load(lease=7.0).encode())
    with pytest.raises(Conflict, match="renew their leases"):
        write_cluster(connection, founded.root, backup, replace=True, wait=lambda _: renew())


@pytest.mark.parametrize("step", range(1, 5))
def test_an_interrupted_restore_lets_nobody_in_and_is_done_again(
    connection: Connection,
    founded: Tree,
    backup: Backup,
    cluster_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    """Interrupt it before each of its transactions: delete, create, create, open."""
    monkeypatch.setattr(znodes, "together", lambda moves: ([move] for move in moves))
    multi, left = connection.multi, [step]

    def interrupted(*steps: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted
        return multi(*steps)

    monkeypatch.setattr(connection, "multi", interrupted)
    with pytest.raises(Interrupted):
        write_cluster(connection, founded.root, backup, replace=True)
    monkeypatch.setattr(connection, "multi", multi)

    assert Meta.decode(connection.get(founded.meta)[0]).protocol == CLOSED
    assert connection.find(founded.assignment) is None
    with pytest.raises(Mismatch, match="is closed while it is restored"):
        Coordinator(replace(cluster_settings, slots=8), MEMBER, dict, Load).start()
    write_cluster(connection, founded.root, backup, replace=True)
    assert events_of(connection, founded) == [f"member {number} joined" for number in range(3)]


def test_jobs_keep_their_order_and_continue_from_their_progress(
    connection: Connection, founded: Tree, jobs: JobQueue
) -> None:
    for number in range(12):  # so that numbers are higher than how many are left
        batch = f"early-{number}"
        jobs.put(batch, [("p", {"do": number})])
        jobs.cancel(batch)
    entries = [(name, {"do": name}) for name in ("a", "b", "c")]
    jobs.put("mine", entries, note={"asked": "by me"})
    claimant = connection.create(f"{founded.members}/0-x", ephemeral=True)
    first, second = taken(jobs, claimant, 2)
    jobs.report(first, {"done": ["half"]})
    jobs.finish(second, Outcome.DONE, {})
    connection.delete(claimant)
    backup, tree = read_cluster(connection, founded.root), elsewhere(founded)
    write_cluster(connection, tree.root, backup, replace=False)

    restored = JobQueue(connection, tree.jobs)
    found = restored.batch("mine")

    assert found is not None
    assert {state: len(its) for state, its in found.jobs.items()} == {
        JobState.PENDING: 2,
        JobState.RUNNING: 0,
        JobState.DONE: 1,
    }
    assert found.note == {"asked": "by me"}
    restored.put("late", [("d", {"do": "d"})])
    again = connection.create(f"{tree.members}/0-y", ephemeral=True)
    claims = taken(restored, again, 3)
    assert [claim.job.work["do"] for claim in claims] == ["a", "c", "d"]
    assert claims[0].job.progress == {"done": ["half"]}
    assert restored.finish(claims[0], Outcome.DONE, {}) is None


def test_a_cluster_that_changes_all_the_time_is_refused(
    connection: Connection, founded: Tree, events: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    details = connection.details

    def busy(paths: list[str]) -> object:
        events.append(Event("run", "again", 1.0))
        return details(paths)

    monkeypatch.setattr(connection, "details", busy)
    with pytest.raises(Unavailable, match="changed each of"):
        read_cluster(connection, founded.root)


def test_what_changed_between_two_looks_is_read_again(
    connection: Connection, founded: Tree, events: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    details = connection.details

    def changing_once(paths: list[str]) -> object:
        monkeypatch.setattr(connection, "details", details)
        found = details(paths)
        events.append(Event("run", "meanwhile", 1.0))
        return found

    monkeypatch.setattr(connection, "details", changing_once)
    backup = read_cluster(connection, founded.root)
    assert sum(path.startswith("events/") for path in backup.znodes) == 4


def test_what_other_programs_have_below_the_root_stays(
    connection: Connection, founded: Tree, backup: Backup
) -> None:
    connection.create(f"{founded.root}/groups/mine/members")
    connection.create(f"{founded.root}/locks/mine", b"held")

    write_cluster(connection, founded.root, backup, replace=True)

    assert connection.children(f"{founded.root}/groups/mine") == ["members"]
    assert connection.get(f"{founded.root}/locks/mine")[0] == b"held"
    assert not [path for path in backup.znodes if path.startswith(("groups", "locks"))]


def test_what_nobody_can_read_is_named(connection: Connection, founded: Tree) -> None:
    for path in (f"{founded.jobs}/pending/odd", f"{founded.events}/odd"):
        connection.create(path, b"odd")
    backup, tree = read_cluster(connection, founded.root), elsewhere(founded)

    write_cluster(connection, tree.root, backup, replace=False)

    assert left_out(backup) == ["jobs/pending/odd", "events/odd"]
    assert len(events_of(connection, tree)) == 3
