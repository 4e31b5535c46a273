"""The end of batches is told once, and the outcomes of all their jobs are kept."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.jobs.answers import asked_event, ended_event
from pyspider_zk.jobs.finalizer import ARCHIVE, PATIENCE, Finalizer
from pyspider_zk.jobs.model import Batch, Claim, Claimant, JobRules, JobState, Outcome
from pyspider_zk.jobs.operations import Note, Progress
from pyspider_zk.jobs.queue import JobQueue
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World
from tests.support.zk_faults import Lossy

pytestmark = pytest.mark.zk

NOTE = {"operation": "stop", "arguments": {}, "total": 3, "user": "ann"}
NOW = 1000.0


class SilentResults:
    """A result database that does not answer."""

    def copy(self) -> "SilentResults":
        return self

    def save(self, *_: Any) -> None:
        raise OSError("away")


class LeadingSide:
    """What a test has: a queue with one claimant, and those who close its batches."""

    def __init__(self, world: World, settings: Settings) -> None:
        self.world = world
        self.now = NOW
        self.connection = Lossy(settings)
        self.connection.start()
        tree = Tree(settings.root)
        rules = JobRules(tries=1, deaths=1)
        self.jobs = JobQueue(self.connection, tree.jobs, rules, lambda: self.now)
        self.events = EventLog(self.connection, tree)
        self.me = Claimant(self.connection.create(f"{tree.members}/0-x", ephemeral=True))
        self.owner = SoleOwner(SLOTS)

    def finalizer(self, resultdb: Any = "a real one") -> Finalizer:
        fence = Fence(SLOTS)
        fence.ownership = self.owner
        resultdb = self.world.database("result") if resultdb == "a real one" else resultdb
        return Finalizer(self.jobs, self.events, fence, resultdb, lambda: self.now)

    def put(self, batch: str = "mine") -> None:
        """Put a batch of three jobs for one project each."""
        work = {"operation": "stop", "arguments": {}}
        entries = [(name, {**work, "projects": [name]}) for name in "abc"]
        event = self.events.step(asked_event(batch, Note.parse(NOTE), NOW))
        self.jobs.put(batch, entries, note=NOTE, event=event)

    def take(self, room: int = 9) -> list[Claim]:
        return self.jobs.take(self.me, lambda _: True, room)

    def finish(self) -> None:
        for claim in self.take():
            self.jobs.finish(claim, Outcome.DONE, Progress(at=1).as_dict())

    def told(self) -> list[tuple[str, str, str]]:
        return [(each.kind, each.who, each.text) for _, each in self.events.read()][1:]

    def kept(self) -> dict[str, str]:
        """Return the outcome that is kept for each project."""
        rows = list(self.world.database("result").select(ARCHIVE))
        assert len(rows) == len({row["taskid"] for row in rows})
        outcomes = {}
        for row in rows:
            names = [*row["result"]["done"], *row["result"]["errors"]]
            outcomes |= dict.fromkeys(names or [row["result"]["job"]], row["result"]["outcome"])
        return outcomes


@pytest.fixture
def leader(world: World, cluster_settings: Settings) -> Iterator[LeadingSide]:
    made = LeadingSide(world, cluster_settings)
    yield made
    made.connection.stop()


def test_a_batch_whose_name_is_no_text_keeps_no_other_from_being_closed(
    leader: LeadingSide, cluster_settings: Settings
) -> None:
    leader.put()
    leader.finish()
    path = f"{Tree(cluster_settings.root).jobs}/batches/%ED%A0%80"
    leader.connection.create(path, b'{"note":{},"created":1,"expected":0,"to_close":true}')

    leader.finalizer().look()

    assert [kind for kind, _, _ in leader.told()] == ["ended"]
    assert path in leader.connection.unreadable.mapping()


def test_a_batch_that_cannot_be_closed_keeps_no_other_and_is_told_once(
    leader: LeadingSide, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_for_bad(batch: Batch, now: float) -> Event:
        if batch.id == "bad":
            raise ValueError("nobody foresaw this")
        return ended_event(batch, now)

    monkeypatch.setattr("pyspider_zk.jobs.finalizer.ended_event", fail_for_bad)
    for batch in ("bad", "good"):
        leader.put(batch)
    leader.finish()
    finalizer = leader.finalizer()

    for _ in range(2):
        finalizer.look()

    ends = [event.data["batch"] for _, event in leader.events.read() if event.kind == "ended"]
    assert ends == ["good"]
    (told,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert told.exc_info


def test_the_end_of_a_batch_is_told_once_with_its_counts(leader: LeadingSide) -> None:
    leader.put()
    (first,) = leader.take(1)
    errors = {"a": "it is locked"}
    finalizer, other = leader.finalizer(), leader.finalizer()
    finalizer.look()
    assert leader.told() == []

    leader.jobs.finish(first, Outcome.DONE, Progress(at=1, errors=errors).as_dict())
    leader.finish()
    for each in (finalizer, other, finalizer):
        each.look()

    assert leader.told() == [("ended", "ann", "stop of 3 projects has failed: 2 done, 1 failed")]
    _, (_, event) = leader.events.read()
    data = {"batch": "mine", "state": "failed", "done": 2, "failed": 1, "remaining": 0}
    assert event.data == data


def test_the_outcome_of_every_job_is_kept_however_it_ended(leader: LeadingSide) -> None:
    leader.put()
    failed, finished = leader.take(2)
    leader.jobs.give_back(failed, {}, "no luck")
    leader.jobs.finish(finished, Outcome.DONE, Progress(at=1).as_dict())
    leader.jobs.cancel("mine")

    leader.finalizer().look()

    (cancelled,) = set(leader.kept()) - {"a", "b"}
    assert leader.kept() == {"a": "failed", "b": "done", cancelled: "cancelled"}
    assert leader.told()[-1][2] == "stop of 3 projects was cancelled: 1 done, 1 failed, 1 cancelled"


def test_the_job_that_killed_its_claimants_is_kept(leader: LeadingSide) -> None:
    leader.put()
    leader.take(1)
    leader.connection.delete(leader.me.path)
    leader.me = Claimant(leader.connection.create(f"{leader.me.parent}/1-y", ephemeral=True))
    leader.finish()

    leader.finalizer().look()

    assert leader.kept() == {"a": "failed", "b": "done", "c": "done"}


def test_an_end_whose_reply_was_lost_is_told_once(leader: LeadingSide) -> None:
    leader.put()
    leader.finish()
    finalizer = leader.finalizer()
    leader.connection.lose = 1
    with pytest.raises(Unavailable):
        finalizer.look()

    finalizer.look()

    assert [kind for kind, *_ in leader.told()] == ["ended"]
    assert len(leader.kept()) == 3


def test_only_the_leader_tells(leader: LeadingSide) -> None:
    leader.put()
    leader.finish()
    finalizer = leader.finalizer()
    leader.owner.leading = False
    finalizer.look()
    assert leader.told() == []

    leader.owner.leading = True
    finalizer.look()
    assert [kind for kind, *_ in leader.told()] == ["ended"]


def test_a_result_database_that_is_away_is_waited_for_but_not_for_ever(
    leader: LeadingSide, caplog: pytest.LogCaptureFixture
) -> None:
    leader.put()
    leader.finish()
    finalizer = leader.finalizer(SilentResults())
    for _ in range(3):
        finalizer.look()
    assert leader.told() == []
    assert len([each for each in caplog.records if "not stored" in each.message]) == 1

    leader.now += PATIENCE + 1
    finalizer.look()

    assert [kind for kind, *_ in leader.told()] == ["ended"]


def test_without_a_result_database_the_end_is_told_all_the_same(leader: LeadingSide) -> None:
    leader.put()
    leader.finish()
    leader.finalizer(None).look()
    assert [kind for kind, *_ in leader.told()] == ["ended"]


def test_what_was_closed_is_not_read_again(
    leader: LeadingSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.put()
    leader.finish()
    finalizer = leader.finalizer()
    finalizer.look()
    finalizer.look()
    read: list[str] = []
    find_all = leader.connection.find_all
    monkeypatch.setattr(
        leader.connection, "find_all", lambda paths: [read.extend(paths), find_all(paths)][1]
    )
    finalizer.look()
    assert read == []


def test_the_leader_forgets_old_batches_but_none_before_its_end_is_told(
    leader: LeadingSide,
) -> None:
    leader.jobs._rules = JobRules(keep_batches=1)
    for batch in ("old", "new"):
        leader.put(batch)
        leader.finish()
        leader.now += 1
    assert leader.jobs.trim() == 0

    leader.finalizer().look()

    assert [name.group for name in leader.jobs.names(JobState.DONE)] == ["new"] * 3


def test_a_thread_of_its_own_looks_now_and_then(
    leader: LeadingSide, eventually: Callable[..., None]
) -> None:
    leader.put()
    finalizer = leader.finalizer()
    finalizer.loop.start()
    try:
        leader.finish()
        finalizer.loop.wake()
        eventually(leader.told)
    finally:
        finalizer.loop.stop(5.0)


def test_a_batch_that_is_put_while_none_is_open_is_noticed(
    leader: LeadingSide, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr("pyspider_zk.jobs.finalizer.PAUSE", 0.05)
    monkeypatch.setattr("pyspider_zk.jobs.finalizer.IDLE", 3600.0)
    finalizer = leader.finalizer()
    finalizer.loop.start()
    try:
        eventually(lambda: finalizer._pause == 3600.0)
        leader.put()
        leader.finish()
        eventually(leader.told)
    finally:
        finalizer.loop.stop(5.0)
