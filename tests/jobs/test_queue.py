"""The job queue on a real ZooKeeper: every transaction, competing claimants, lost replies."""

import math
import random
import string
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from kazoo.exceptions import NoNodeError

from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, BatchTaken, JobLost, SessionLost, Unavailable
from pyspider_zk.jobs import queue as queue_module
from pyspider_zk.jobs.claims import Registration
from pyspider_zk.jobs.model import (
    PUT_LIMIT,
    RECORD_LIMIT,
    Claim,
    Claimant,
    Found,
    JobName,
    JobRules,
    JobState,
    Junk,
    Outcome,
    Report,
    Verdict,
)
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.zookeeper.steps import Create
from tests.support.crew import expire
from tests.support.waiting import eventually
from tests.support.zk_faults import Lossy

pytestmark = pytest.mark.zk

T = TypeVar("T")

ALL = JobState.PENDING, JobState.RUNNING, JobState.DONE
TWO = [("a", {"n": 1}), ("b", {"n": 2})]


class QueueSide:
    """One process: its connection, claimant and queue."""

    def __init__(self, settings: Settings, rules: JobRules) -> None:
        self.now = 1000.0
        self.link = Lossy(settings)
        self.link.start()
        self.queue = JobQueue(self.link, f"{settings.root}/jobs", rules, lambda: self.now)
        self.registration = Registration(self.link, f"{settings.root}/claimants")
        self.me = self.registration.claimant()

    def take(self, room: int = 99, mine: Callable[[str], bool] = lambda _: True) -> list[Claim]:
        return self.queue.take(self.me, mine, room)

    def take_one(self) -> Claim:
        (claim,) = self.take(1)
        return claim

    def die(self) -> None:
        expire(self.link)

    def places(self) -> list[int]:
        return [len(self.queue.names(state)) for state in ALL]


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[..., QueueSide]]:
    """Give a function that starts another process."""
    sides: list[QueueSide] = []

    def another(rules: JobRules = JobRules(tries=2, pauses=(10.0,))) -> QueueSide:  # noqa: B008
        sides.append(QueueSide(settings, rules))
        return sides[-1]

    yield another
    for side in sides:
        side.link.stop()


@pytest.fixture
def one(start: Callable[..., QueueSide]) -> QueueSide:
    """Give a process."""
    return start()


@pytest.fixture
def other(start: Callable[..., QueueSide]) -> QueueSide:
    """Give another process."""
    return start()


# --- put ----------------------------------------------------------------------------------------


def test_a_batch_is_put_once(one: QueueSide):
    assert one.queue.put("b", TWO, note={"who": "me"}, priority=7)
    assert not one.queue.put("b", TWO)

    batch = one.queue.batch("b")
    assert (batch.note, batch.record.expected, batch.record.created) == ({"who": "me"}, 2, 1000.0)
    pending = batch.jobs[JobState.PENDING]
    assert sorted((name.project, job.work["n"]) for name, job in pending.items()) == [
        ("a", 1),
        ("b", 2),
    ]
    assert {name.priority for name in pending} == {7}
    assert one.queue.batch("unknown") is None


def test_a_batch_without_jobs_has_ended(one: QueueSide):
    assert one.queue.put("empty", [])
    assert one.queue.batch("empty").ended


def test_a_put_whose_reply_was_lost_is_found(one: QueueSide):
    one.link.lose = 1
    with pytest.raises(Unavailable):
        one.queue.put("b", TWO)

    assert not one.queue.put("b", TWO)
    assert one.places() == [2, 0, 0]


def test_a_large_batch_is_put_in_parts_and_completed_by_another(one: QueueSide, other: QueueSide):
    large = [(f"p{i}", {"text": noise(i, 100_000)}) for i in range(20)]
    one.link.lose = 1
    with pytest.raises(Unavailable):
        one.queue.put("b", large)
    begun = one.queue.batch("b")

    assert not begun.ended
    assert 0 < len(begun.jobs[JobState.PENDING]) < 20
    with pytest.raises(BatchTaken):
        other.queue.put("b", TWO)
    assert other.queue.put("b", large)
    names = one.queue.names(JobState.PENDING)
    assert [name.project for name in names] == [f"p{i}" for i in range(20)]


def test_a_note_that_is_too_large_is_refused(one: QueueSide):
    with pytest.raises(BadMessage, match="note"):
        one.queue.put("b", TWO, note={"text": noise(0, 400_000)})


def test_a_note_or_job_that_cannot_be_stored_is_refused(one: QueueSide):
    with pytest.raises(BadMessage, match="the note of batch 'b' holds half of a character"):
        one.queue.put("b", TWO, note={"text": "x\ud800"})
    with pytest.raises(BadMessage, match="the job of a holds half of a character"):
        one.queue.put("b", [("a", {"text": "x\ud800"})])


def test_a_job_that_is_put_has_room_for_its_claims_and_its_end(
    one: QueueSide, start: Callable[..., QueueSide]
):
    with pytest.raises(BadMessage, match="the job of a has"):
        one.queue.put("b", [("a", {"text": "x" * (RECORD_LIMIT - 1000)})])
    one.queue.put("b", [("a", {"text": "x" * (PUT_LIMIT - 1000)})])
    former = start()
    former.take_one()
    former.die()
    claim = one.take_one()

    one.queue.finish(claim, Outcome.FAILED, {}, "\0" * 1000)

    assert one.places() == [0, 0, 1]


def test_two_that_put_the_same_batch_at_once_put_it_once(one: QueueSide, other: QueueSide):
    large = [(f"p{i}", {"text": noise(i, 100_000)}) for i in range(20)]
    other_puts = threading.Thread(target=other.queue.put, args=("b", large))
    one.link.before = other_puts.start

    one.queue.put("b", large)
    other_puts.join()

    assert sorted(name.project for name in one.queue.names(JobState.PENDING)) == sorted(
        project for project, _ in large
    )


@pytest.mark.parametrize(
    ("batch", "project", "work", "priority"),
    [
        ("", "a", {}, 500),
        ("b", "a-b", {}, 500),
        ("b", "a", {}, 1000),
        ("b", "a", {"text": "x"}, 500),
    ],
    ids=["batch", "project", "priority", "size"],
)
def test_what_cannot_be_put_is_refused_before_anything_is(
    one: QueueSide, batch, project, work, priority
):
    if work:
        work = {"text": noise(0, 1_600_000)}

    with pytest.raises(BadMessage):
        one.queue.put(batch, [("good", {}), (project, work)], priority=priority)

    assert one.places() == [0, 0, 0]


@pytest.mark.parametrize(
    ("group", "project"),
    [
        (".", "a"),
        ("..", "_"),
        ("zookeeper", "a"),
        ("a/b", "a"),
        ("a:b-c%2F%", "a"),
        ("\x00\x01\x1f\x7f\x9f\n", "a"),
        ("\ue000\uf8ff\ufff0\uffff", "a"),
        ("ночь", "проект_٣"),
        ("\U0001f600" * 200, "\U00020000" * 64),
        ("щ" * 200, "ж" * 64),
    ],
    ids=ascii,
)
def test_zookeeper_takes_any_name(one: QueueSide, group, project):
    assert one.queue.put(group, [(project, {"n": 1})])

    assert one.queue.batches() == [group]
    claim = one.take_one()
    assert (claim.name.group, claim.name.project) == (group, project)
    one.queue.finish(claim, Outcome.DONE, {})
    assert one.queue.batch(group).ended


def test_zookeeper_takes_sequences_that_ran_over(one: QueueSide):
    one.queue.put("b", [("a", {})])
    (name,) = one.queue.names(JobState.PENDING)
    path = f"{one.queue._tree.place(JobState.PENDING)}"
    data = one.link.get(f"{path}/{name}")[0]
    for sequence in (-(2**31), -1, 2**31 - 1):
        one.link.create(f"{path}/{name._replace(sequence=sequence)}", data)

    taken = [claim.name.sequence for claim in one.take()]

    assert taken == [0, 2**31 - 1, -(2**31), -1]


# --- take ---------------------------------------------------------------------------------------


def test_the_highest_priority_is_taken_first_then_the_oldest(one: QueueSide):
    one.queue.put("low", [("a", {}), ("b", {})], priority=1)
    one.queue.put("high", [("c", {}), ("d", {})], priority=999)
    one.queue.put("middle", [("e", {})])

    taken = [claim.name.project for claim in one.take()]

    assert taken == ["c", "d", "e", "a", "b"]


def test_only_mine_are_taken_and_only_so_many(one: QueueSide):
    one.queue.put("b", [(project, {}) for project in string.ascii_lowercase])

    taken = one.take(room=3, mine=lambda project: project > "f")

    assert [claim.name.project for claim in taken] == ["g", "h", "i"]
    assert one.take(room=0) == []


def test_what_is_taken_is_not_taken_again(one: QueueSide, other: QueueSide):
    one.queue.put("b", TWO)

    assert len(one.take()) == 2
    assert one.take() == other.take() == []


def test_jobs_that_are_held_are_not_read_at_every_look(one: QueueSide, other: QueueSide):
    """A member holds hundreds, and looks whenever one of them is to be reported."""
    one.queue.put("b", [*TWO, ("c", {})])
    held, _ = one.take(room=2)
    others = other.take_one()
    read: list[str] = []
    look = one.queue._store.look

    def noting(state: JobState, names: Sequence[JobName]) -> Iterator[Found | Junk]:
        read.extend(name.project for name in names)
        return look(state, names)

    one.queue._store.look = noting

    assert one.take() == []
    assert read == [others.name.project]
    one.queue.put_down([held])
    assert one.take() == [held]


def test_competing_claimants_get_each_job_once(one: QueueSide, other: QueueSide):
    one.queue.put("b", [(f"p{i}", {}) for i in range(60)])
    taken: list[str] = []

    def take_all(side: QueueSide) -> None:
        while claims := side.take(room=5):
            taken.extend(claim.name.project for claim in claims)

    threads = [threading.Thread(target=take_all, args=(side,)) for side in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for side in (one, other):
        taken.extend(claim.name.project for claim in side.take())

    assert sorted(taken) == sorted(f"p{i}" for i in range(60))


def test_threads_of_one_claimant_get_each_job_once(one: QueueSide):
    count = 120
    one.queue.put("b", [(f"p{i}", {}) for i in range(count)])
    taken: list[str] = []

    def take_all() -> None:
        while one.places() != [0, 0, count]:
            for claim in one.take(room=3):
                taken.append(claim.name.project)
                one.queue.finish(claim, Outcome.DONE, {})

    threads = [threading.Thread(target=take_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == sorted(f"p{i}" for i in range(count))


def test_a_job_that_ends_while_another_thread_looks_is_not_given_to_it(one: QueueSide):
    """The other thread claims and finishes between this one's look at the jobs and at memory."""
    one.queue.put("b", [("a", {})])
    claims: list[Claim] = []
    standing = one.queue._store.standing

    def slow(*args: object) -> set[str]:
        found = standing(*args)
        for claim in claims:
            one.queue.finish(claim, Outcome.DONE, {})
        return found

    def look_late(*args: object) -> list[JobName]:
        one.queue._store.names = names
        claims.extend(one.take())
        one.queue._store.standing = slow
        return names(*args)

    names = one.queue._store.names
    one.queue._store.names = look_late

    assert one.take() == []
    assert len(claims) == 1


def test_claims_that_nobody_began_are_returned_again(one: QueueSide):
    one.queue.put("b", TWO)
    first, second = one.take()

    one.queue.put_down([second])

    assert one.take() == [second]
    assert one.take() == []
    one.queue.finish(first, Outcome.DONE, {})
    one.queue.finish(second, Outcome.DONE, {})


def test_who_was_slower_goes_on_without(one: QueueSide, other: QueueSide):
    one.queue.put("b", TWO)
    one.link.before = other.take

    assert one.take() == []


def test_a_claim_whose_reply_was_lost_is_found_once(one: QueueSide):
    one.queue.put("b", TWO)
    one.link.lose = 1
    with pytest.raises(Unavailable):
        one.take(room=1)

    found = one.take(room=0)

    assert [claim.name.project for claim in found] == ["a"]
    assert one.take(room=0) == []
    one.queue.finish(found[0], Outcome.DONE, {})
    assert one.places() == [1, 0, 1]


def test_a_lost_claim_of_a_session_before_is_left_to_who_may(one: QueueSide):
    one.queue.put("b", [("a", {})])
    one.link.lose = 1
    with pytest.raises(Unavailable):
        one.take()
    one.registration.leave()
    one.me = one.registration.claimant()

    assert one.take(mine=lambda _: False) == []

    assert one.places() == [0, 1, 0]


def test_of_claims_that_were_sent_together_those_that_arrived_are_found(one: QueueSide):
    one.queue.put("b", [(project, {}) for project in "abc"])
    one.link.lose, one.link.arrive = 1, 2
    with pytest.raises(Unavailable):
        one.take()

    found = one.take(mine=lambda _: False)

    assert [claim.name.project for claim in found] == ["a", "b"]


def test_a_claimant_that_is_gone_takes_nothing(one: QueueSide):
    one.queue.put("b", TWO)
    with pytest.raises(SessionLost):
        one.queue.take(Claimant(f"{one.me.parent}/nobody"), lambda _: True, 9)
    one.link.before = one.registration.leave

    with pytest.raises(SessionLost):
        one.take()

    assert one.places() == [2, 0, 0]


def test_jobs_that_have_moved_since_they_were_listed_are_left_out(one: QueueSide):
    one.queue.put("b", [("a", {})])
    (name,) = one.queue.names(JobState.PENDING)

    found = one.queue._store.read(JobState.PENDING, [name._replace(sequence=9), name])

    assert [each.name for each in found] == [name]


def test_data_that_is_no_job_is_passed_over(one: QueueSide):
    one.queue.put("b", [("a", {}), ("b", {})])
    broken = one.queue.names(JobState.PENDING)[0]
    one.link.set(f"{one.queue._tree.job(JobState.PENDING, broken)}", b"?")
    one.link.create(f"{one.queue._tree.place(JobState.PENDING)}/stranger")

    assert [claim.name.project for claim in one.take()] == ["b"]


DEEP = b'{"work": ' + b"[" * 50_000 + b"]" * 50_000 + b', "created": 1}'
BOMB = zlib.compress(b'{"work": {}, "created": 1' + b" " * 60_000_000 + b"}")
JUNK = {
    "text": b"?",
    "too deep": DEEP,
    "inflates": BOMB,
    "wrong type": b'{"work": {}, "created": 1, "attempts": "many"}',
    "negative": b'{"work": {}, "created": 1, "attempts": -9}',
    "no outcome": b'{"work": {}, "created": 1, "outcome": "perhaps"}',
    "not a number": b'{"work": {}, "created": NaN}',
    "utf-16": "{}".encode("utf-16"),
    "nothing": b"",
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
@pytest.mark.parametrize("state", ALL)
def test_a_record_that_is_no_job_keeps_no_other_from_anything(
    one: QueueSide, other: QueueSide, caplog: pytest.LogCaptureFixture, junk: bytes, state: JobState
):
    one.queue.put("b", [("a", {}), ("b", {}), ("c", {})])
    name, claim = one.queue.names(JobState.PENDING)[0], None
    if state is not JobState.PENDING:
        claim = one.take_one()
    if state is JobState.DONE:
        one.queue.finish(claim, Outcome.DONE, {})
    path = one.queue._tree.job(state, name)
    one.link.set(path, junk)

    taken = other.take()
    other.take()
    (told,) = other.queue.shown(["b"]).values()
    assert [each.name.project for each in taken] == ["b", "c"]
    assert list(other.queue.unreadable) == [path]
    assert len([record for record in caplog.records if path in record.message]) == 1
    assert list(told.unreadable) == [name]
    assert told.is_whole
    assert other.queue.find(name) is None
    if state is JobState.RUNNING:
        with pytest.raises(JobLost):
            one.queue.report(claim, {})
    for each in taken:
        other.queue.finish(each, Outcome.DONE, {})

    other.queue.cancel("b")
    assert other.queue.batch("b").ended
    assert other.queue.find(name)[1].outcome is Outcome.CANCELLED
    assert not other.queue.unreadable


@pytest.mark.parametrize(
    "child", ["stranger", "entry-500-%ff:p-0000000001", "entry-500-b:%ED%A0%80-0000000001", "%ff"]
)
@pytest.mark.parametrize("place", ["pending", "running", "done", "batches"])
def test_a_name_that_is_no_name_keeps_nobody_from_anything(one: QueueSide, place: str, child: str):
    one.queue.put("b", TWO)
    path = f"{one.queue._tree.root}/{place}/{child}"
    one.link.create(path, b"junk")

    assert len(one.take(mine=lambda project: len(project.encode()))) == 2
    assert one.queue.batches() == ["b"]
    assert one.queue.unclosed(set())[0] == []
    assert one.queue.trim() == 0
    assert one.queue.cancel("b") == 2
    assert list(one.queue.unreadable) == [path]

    one.link.delete(path)
    one.queue.batches()
    one.take()
    one.queue.batch("b")
    assert not one.queue.unreadable


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
def test_a_batch_that_cannot_be_read_is_named_and_the_others_go_on(one: QueueSide, junk: bytes):
    one.queue.put("b", TWO)
    one.queue.put("c", [("c", {})])
    path = one.queue._tree.batch("b")
    one.link.set(path, junk)

    assert one.queue.batches() == ["c"]
    assert one.queue.batch("b") is None
    assert list(one.queue.unreadable) == [path]
    for ask in (lambda: one.queue.cancel("b"), lambda: one.queue.put("b", TWO)):
        with pytest.raises(BadMessage, match=path):
            ask()
    assert one.queue.cancel("c") == 1
    assert len(one.take()) == 2


@pytest.mark.parametrize(
    "claimant", ["", "x", "/", "//", "/a//b", "/a/../b", "relative/x", "/a\x00b", "/" + "x" * 9999]
)
def test_a_job_whose_claimant_is_no_znode_at_all_is_given_back(
    one: QueueSide, other: QueueSide, claimant: str
):
    one.queue.put("b", TWO)
    claim = one.take_one()
    running = one.queue._tree.job(JobState.RUNNING, claim.name)
    one.link.set(running, replace(claim.job, claimant=claimant).encode())

    assert {each.name.project for each in other.take()} == {"a", "b"}


def test_who_holds_a_job_that_is_made_anothers_gives_it_back_after_its_next_report(one: QueueSide):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    running = one.queue._tree.job(JobState.RUNNING, claim.name)
    one.link.set(running, replace(claim.job, claimant="/nobody").encode())

    with pytest.raises(JobLost):
        one.queue.report(claim, {})

    assert [each.name for each in one.take()] == [claim.name]


@pytest.mark.parametrize("child", ["stranger", "7", "-1", "01", "stranger/deeper", "1/deeper"])
def test_a_child_that_does_not_belong_below_a_job_does_not_hold_it(one: QueueSide, child: str):
    one.queue.put("b", TWO)
    pending = one.queue._tree.job(JobState.PENDING, one.queue.names(JobState.PENDING)[0])
    if not child.startswith("1/"):  # a token stands below none that was not claimed
        one.link.create(f"{pending}/{child}")
    claims = {claim.name.project: claim for claim in [*one.take(), *one.take()]}
    running = one.queue._tree.job(JobState.RUNNING, claims["b"].name)
    one.link.create(f"{running}/{child}")

    for claim in claims.values():
        one.queue.finish(claim, Outcome.DONE, {})

    assert one.places() == [0, 0, 2]


TOKEN_MOVES: dict[str, Callable[[QueueSide, QueueSide, Claim], object]] = {
    "report": lambda one, _, claim: one.queue.report(claim, {"n": 1}),
    "finish": lambda one, _, claim: one.queue.finish(claim, Outcome.DONE, {}),
    "cancel": lambda one, _, __: one.queue.cancel("b"),
    "death": lambda one, other, _: (one.die(), other.take_one()),
}


@pytest.mark.parametrize("move", TOKEN_MOVES.values(), ids=TOKEN_MOVES.keys())
def test_a_running_job_whose_token_was_deleted_moves_nevertheless(
    one: QueueSide, other: QueueSide, move: Callable[[QueueSide, QueueSide, Claim], object]
):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    one.link.delete(one.queue._tree.token(JobState.RUNNING, claim.name, claim.job))

    move(one, other, claim)

    found = one.queue if move is not TOKEN_MOVES["death"] else other.queue
    assert found.find(claim.name)[1] != claim.job


def test_a_pending_job_whose_token_was_deleted_is_taken(one: QueueSide):
    one.queue.put("b", [("a", {})])
    one.queue.give_back(one.take_one(), {})
    (name,) = one.queue.names(JobState.PENDING)
    one.link.delete(f"{one.queue._tree.job(JobState.PENDING, name)}/1")

    assert one.take_one().job.claims == 2


def test_a_running_job_that_says_it_was_never_claimed_holds_no_cancellation(one: QueueSide):
    one.queue.put("b", TWO)
    odd, claim = one.take()
    running = one.queue._tree.job(JobState.RUNNING, odd.name)
    one.link.set(running, replace(odd.job, claims=0).encode())

    assert one.queue.cancel("b") == 1
    assert one.queue.report(claim, {}).job.cancelled


@pytest.mark.parametrize("child", ["stranger", "stranger/deeper"])
@pytest.mark.parametrize("is_readable", [True, False])
def test_a_job_is_cancelled_though_something_stands_below_it(
    one: QueueSide, child: str, is_readable: bool
):
    one.queue.put("b", TWO)
    pending = one.queue._tree.job(JobState.PENDING, one.queue.names(JobState.PENDING)[0])
    one.link.create(f"{pending}/{child}")
    if not is_readable:
        one.link.set(pending, b"junk")

    one.queue.cancel("b")

    assert one.places() == [0, 0, 2]


# --- report, finish, give back ------------------------------------------------------------------


def test_a_job_is_reported_and_finished(one: QueueSide):
    one.queue.put("b", [("a", {"n": 1})])
    claim = one.queue.report(one.take_one(), {"done": 1})
    claim = one.queue.report(claim, {"done": 2})
    state, job = one.queue.find(claim.name)
    assert (state, job.progress, job.claimant) == (JobState.RUNNING, {"done": 2}, one.me.path)

    one.now = 1007.0
    one.queue.finish(claim, Outcome.FAILED, {"done": 3}, "too bad")

    state, job = one.queue.find(claim.name)
    assert (state, job.outcome, job.reason) == (JobState.DONE, Outcome.FAILED, "too bad")
    assert (job.progress, job.ended, job.work) == ({"done": 3}, 1007.0, {"n": 1})
    assert one.queue.batch("b").ended


LAST_STEPS = {
    "finish": lambda side, claim: side.queue.finish(claim, Outcome.DONE, {}),
    "give back": lambda side, claim: side.queue.give_back(claim, {}),
    "fail": lambda side, claim: side.queue.give_back(claim, {}, "no luck"),
}


@pytest.mark.parametrize("step", LAST_STEPS)
def test_a_step_whose_reply_was_lost_is_found_done(one: QueueSide, step):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    one.link.lose = 1
    with pytest.raises(Unavailable):
        LAST_STEPS[step](one, claim)
    before = one.queue.find(claim.name)

    LAST_STEPS[step](one, claim)

    assert one.queue.find(claim.name) == before


def test_a_progress_that_no_znode_takes_is_refused_before_it_is_sent(one: QueueSide):
    """ZooKeeper would drop the connection, and the claimant with it."""
    one.queue.put("b", [("a", {})])
    claim = one.take_one()

    for large in (noise(1, 1_200_000), "x" * 5_000_000):
        with pytest.raises(BadMessage, match="progress"):
            one.queue.report(claim, {"text": large})
        with pytest.raises(BadMessage, match="progress"):
            one.queue.finish(claim, Outcome.DONE, {"text": large})

    one.queue.finish(claim, Outcome.FAILED, {}, noise(2, 900_000))
    assert one.places() == [0, 0, 1]


def test_a_report_whose_reply_was_lost_is_made_again(one: QueueSide):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    one.link.lose = 1
    with pytest.raises(Unavailable):
        one.queue.report(claim, {"done": 1})

    claim = one.queue.report(claim, {"done": 2})
    one.queue.finish(claim, Outcome.DONE, {"done": 3})


@pytest.mark.parametrize("step", LAST_STEPS)
def test_a_job_that_another_has_now_is_lost(one: QueueSide, other: QueueSide, step):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    one.queue.give_back(claim, {})
    others = other.take_one()

    with pytest.raises(JobLost, match="not held"):
        LAST_STEPS[step](one, claim)
    with pytest.raises(JobLost):
        one.queue.report(claim, {})

    other.queue.finish(others, Outcome.DONE, {})


def test_a_claim_of_before_is_lost_to_its_own_claimant_too(one: QueueSide):
    one.queue.put("b", [("a", {})])
    former = one.take_one()
    one.queue.give_back(former, {})
    claim = one.take_one()

    for step in LAST_STEPS.values():
        with pytest.raises(JobLost):
            step(one, former)

    one.queue.finish(claim, Outcome.DONE, {})


def test_a_job_that_is_given_back_keeps_its_place_and_progress(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {}), ("b", {})])
    one.queue.give_back(one.take_one(), {"done": 5})

    claim = other.take_one()

    assert (claim.name.project, claim.job.progress) == ("a", {"done": 5})
    assert (claim.job.attempts, claim.job.claims) == (0, 2)


def test_a_job_that_failed_waits_and_fails_for_good_after_the_last_try(one: QueueSide):
    one.queue.put("b", [("a", {})])
    one.queue.give_back(one.take_one(), {}, "no luck")
    assert one.take() == []

    one.now += 10.0
    claim = one.take_one()
    one.queue.give_back(claim, {}, "no luck at all")

    state, job = one.queue.find(claim.name)
    assert (state, job.outcome, job.reason) == (JobState.DONE, Outcome.FAILED, "no luck at all")


def test_jobs_that_wait_do_not_block_those_behind_them(one: QueueSide):
    one.queue.put("b", [(f"p{i}", {}) for i in range(150)])
    for claim in one.take(room=140):
        one.queue.give_back(claim, {}, "no luck")

    assert [claim.name.project for claim in one.take(room=3)] == ["p140", "p141", "p142"]


def test_a_job_that_gave_way_is_taken_again_after_all_others(one: QueueSide):
    one.queue.put("b", [(project, {}) for project in "abc"])
    for claim in one.take(room=2):
        one.queue.give_back(claim, {}, behind=True)

    assert [claim.name.project for claim in one.take()] == ["c", "a", "b"]


def test_a_job_that_gave_way_and_that_another_took_is_not_missed(one: QueueSide, other: QueueSide):
    one.queue.put("b", [(project, {}) for project in "ab"])
    one.queue.give_back(one.take_one(), {}, behind=True)
    taken = other.take_one()
    assert [claim.name.project for claim in one.take()] == ["b"]

    other.queue.give_back(taken, {})

    assert [claim.name for claim in one.take()] == [taken.name]


# --- the dead -----------------------------------------------------------------------------------


def test_jobs_of_the_dead_are_taken_by_who_may(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {}), ("b", {})])
    claims = one.take()
    assert other.take() == []
    one.die()

    taken = other.take(mine=lambda project: project == "a")

    assert [(claim.name, claim.job.deaths) for claim in taken] == [(claims[0].name, 1)]
    assert other.places() == [0, 2, 0]


def test_who_goes_on_after_its_session_loses_its_job(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {}), ("b", {}), ("c", {})])
    reported, finished, given = one.take()
    one.die()
    eventually(lambda: answers(one), "another session")

    with pytest.raises(JobLost):
        one.queue.report(reported, {})
    with pytest.raises(JobLost):
        one.queue.finish(finished, Outcome.DONE, {})
    one.queue.give_back(given, {"done": 1})  # what helps the next is not refused
    assert len(other.take()) == 3
    with pytest.raises(SessionLost):
        one.take()

    one.me = one.registration.claimant()
    assert one.take() == []


def test_a_claimant_registers_anew_in_each_session(one: QueueSide):
    first = one.registration.claimant()
    assert one.registration.claimant() == first
    one.die()
    eventually(lambda: answers(one), "another session")

    second = one.registration.claimant()

    assert first != second
    assert one.link.children(first.parent) == [second.path.rpartition("/")[2]]
    one.registration.leave()
    assert one.link.children(first.parent) == []


def test_a_session_whose_id_is_not_known_yet_is_waited_for(one: QueueSide, monkeypatch):
    one.registration.leave()
    session = one.link.session
    known = []
    monkeypatch.setattr(Lossy, "session", property(lambda _: session if known else None))
    monkeypatch.setattr(one.link, "sync", known.append)

    assert one.registration.claimant() == one.registration.claimant()


def test_a_registration_whose_reply_was_lost_is_found(one: QueueSide, monkeypatch):
    one.registration.leave()
    create = one.link.create

    def lose(*args, **options):
        monkeypatch.undo()
        create(*args, **options)
        raise Unavailable("the reply is lost")

    monkeypatch.setattr(one.link, "create", lose)
    with pytest.raises(Unavailable):
        one.registration.claimant()

    me = one.registration.claimant()
    assert [me.path] == [f"{me.parent}/{name}" for name in one.link.children(me.parent)]


def test_a_job_that_kills_everybody_fails(start: Callable[..., QueueSide]):
    rules = JobRules(deaths=2)
    last = start(rules)
    last.queue.put("b", [("a", {})])
    for _ in range(2):
        victim = start(rules)
        assert victim.take_one()
        victim.die()

    assert last.take() == []
    (job,) = last.queue.batch("b").jobs[JobState.DONE].values()
    assert (job.outcome, "died of it" in job.reason) == (Outcome.FAILED, True)


# --- cancel -------------------------------------------------------------------------------------


def test_pending_jobs_are_cancelled_at_once_and_running_ones_are_told(
    one: QueueSide, other: QueueSide
):
    one.queue.put("b", [(project, {}) for project in "abc"])
    claim = one.take_one()

    assert other.queue.cancel("b") == 3
    assert other.queue.cancel("b") == 0

    assert one.places() == [0, 1, 2]
    claim = one.queue.report(claim, {"done": 1})
    assert claim.job.cancelled
    one.queue.give_back(claim, {"done": 1})
    batch = one.queue.batch("b")
    assert batch.ended
    assert batch.record.cancelled
    assert {job.outcome for job in batch.jobs[JobState.DONE].values()} == {Outcome.CANCELLED}


def test_an_unknown_batch_cancels_nothing(one: QueueSide):
    assert one.queue.cancel("unknown") == 0


def test_a_job_that_finishes_before_the_mark_is_done(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    assert other.queue.put("other", [("x", {})])
    mark = other.queue._store.read

    def finish_first(*args):
        found = list(mark(*args))
        other.queue._store.read = mark
        one.queue.finish(claim, Outcome.DONE, {})
        return iter(found)

    other.queue._store.read = finish_first
    assert other.queue.cancel("b") == 0

    assert one.queue.find(claim.name)[1].outcome is Outcome.DONE


def test_a_job_that_was_marked_first_may_still_be_finished(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    one.link.before = lambda: other.queue.cancel("b")

    one.queue.finish(claim, Outcome.DONE, {})

    job = one.queue.find(claim.name)[1]
    assert (job.outcome, job.cancelled) == (Outcome.DONE, True)


@pytest.mark.parametrize("step", ["give back", "fail"])
def test_a_job_that_was_marked_first_does_not_come_back(one: QueueSide, other: QueueSide, step):
    one.queue.put("b", [("a", {})])
    claim = one.take_one()
    one.link.before = lambda: other.queue.cancel("b")

    LAST_STEPS[step](one, claim)

    assert one.queue.find(claim.name)[1].outcome is Outcome.CANCELLED


def test_a_job_of_a_cancelled_batch_is_not_claimed(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {})])
    one.link.before = lambda: other.queue._mark("b")

    assert one.take() == []
    assert one.take() == []

    assert one.places() == [0, 0, 1]


def test_jobs_that_another_ends_meanwhile_do_not_keep_the_rest(one: QueueSide, other: QueueSide):
    one.queue.put("b", [(project, {}) for project in "abc"])

    def before_the_end() -> None:
        other.link.before = lambda: one.take(mine=lambda project: project == "a")

    other.link.before = before_the_end

    assert other.queue.cancel("b") == 2

    assert one.places() == [0, 0, 3]


def test_threads_that_claim_cancel_and_close_one_batch_leave_each_job_ended_once(
    one: QueueSide, other: QueueSide
):
    event = Create(f"{one.queue._tree.root}-events/event-", b"", sequence=True)
    count = 40
    one.queue.put("b", [(f"p{i}", {}) for i in range(count)], event=event)
    counted: list[int] = []
    finished: list[str] = []
    go = threading.Event()

    def work(side: QueueSide) -> None:
        while not side.queue.batch("b").ended:
            for claim in side.take(room=2):
                go.set()
                side.queue.finish(claim, Outcome.DONE, {})
                finished.append(claim.name.project)

    def cancel(side: QueueSide) -> None:
        go.wait(60)
        counted.append(side.queue.cancel("b", event))

    def close(side: QueueSide) -> None:
        while side.queue.batch("b").record.to_close:
            for batch in side.queue.unclosed(set())[0]:
                side.queue.close(batch.id, event)

    threads = [
        threading.Thread(target=do, args=(side,))
        for do in (work, cancel, close)
        for side in (one, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()

    done = one.queue.batch("b").jobs[JobState.DONE].values()
    outcomes = [job.outcome for job in done]
    assert len(finished) == len(set(finished)) == outcomes.count(Outcome.DONE)
    assert outcomes.count(Outcome.CANCELLED) == count - len(finished)
    assert sum(counted) <= count, "who claims ends cancelled jobs as well"
    assert len(one.link.children(f"{one.queue._tree.root}-events")) == 3, "asked, cancelled, closed"


def test_large_jobs_are_cancelled_in_several_transactions(one: QueueSide):
    one.queue.put("b", [(f"p{i}", {"text": noise(i, 100_000)}) for i in range(40)])

    assert one.queue.cancel("b") == 40

    assert one.places() == [0, 0, 40]


def test_nothing_is_put_into_a_batch_that_was_cancelled(one: QueueSide, other: QueueSide):
    large = [(f"p{i}", {"text": noise(i, 100_000)}) for i in range(20)]
    one.link.lose = 1
    with pytest.raises(Unavailable):
        one.queue.put("b", large)
    other.queue.cancel("b")

    assert not one.queue.put("b", large)
    assert one.queue.batch("b").ended


def test_the_dead_give_back_what_was_cancelled_as_cancelled(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {})])
    one.take()
    other.queue.cancel("b")
    one.die()

    assert other.take() == []
    assert other.queue.batch("b").ended


def test_what_must_be_tidied_up_comes_back_though_it_was_cancelled(
    one: QueueSide, other: QueueSide
):
    one.queue.put("b", [("a", {}), ("b", {})])
    died, given = (one.queue.report(claim, {"done": 1}, needs_cleanup=True) for claim in one.take())
    one.queue.give_back(given, {"done": 1})
    assert other.queue.cancel("b") == 1
    one.die()

    claims = other.take()

    assert {claim.name for claim in claims} == {died.name, given.name}
    assert all(claim.job.cancelled for claim in claims)
    assert not other.queue.batch("b").ended
    for claim in claims:
        other.queue.finish(claim, Outcome.CANCELLED, {})
    assert other.queue.batch("b").ended


def test_what_cannot_be_tidied_up_ends_after_the_last_try(one: QueueSide, other: QueueSide):
    one.queue.put("b", [("a", {})])
    claim = one.queue.report(one.take_one(), {}, needs_cleanup=True)
    other.queue.cancel("b")
    one.queue.give_back(claim, {}, "no luck")
    one.now += 10.0

    one.queue.give_back(one.take_one(), {}, "no luck")

    (job,) = one.queue.batch("b").jobs[JobState.DONE].values()
    assert job.outcome is Outcome.CANCELLED


# --- showing, watching, forgetting --------------------------------------------------------------


def test_batches_are_listed_newest_first(one: QueueSide):
    for batch in ("x", "z", "y"):
        one.queue.put(batch, [])
        one.now += 1

    assert one.queue.batches() == ["y", "z", "x"]


def test_whoever_waits_is_called_when_jobs_come_or_claimants_go(one: QueueSide, other: QueueSide):
    called = threading.Semaphore(0)
    one.queue.on_change(lambda _: called.release())
    assert one.take() == []

    other.queue.put("b", [("a", {})])
    assert called.acquire(timeout=60)

    claim = other.take_one()
    assert one.take() == []
    other.queue.give_back(claim, {})
    assert called.acquire(timeout=60)

    other.take()
    while called.acquire(blocking=False):
        pass
    assert one.take() == []
    other.die()
    assert called.acquire(timeout=60)


def test_a_job_can_be_watched(one: QueueSide):
    one.queue.put("b", [("a", {})])
    (name,) = one.queue.names(JobState.PENDING)
    called = threading.Semaphore(0)

    for step in (
        lambda: one.take_one(),
        lambda: one.queue.cancel("b"),
    ):
        assert one.queue.find(name, lambda _: called.release())
        step()
        assert called.acquire(timeout=60)

    assert one.queue.find(JobName(1, "x", "y", 2)) is None


def test_old_batches_are_forgotten_with_their_jobs(start: Callable[..., QueueSide]):
    one = start(JobRules(keep_batches=2))
    for batch in ("old", "running", "half", "young"):
        one.queue.put(batch, TWO)
        one.now += 1
    for claim in one.take():
        if claim.name.group != "running":
            one.queue.finish(claim, Outcome.DONE, {})
    path = one.queue._tree.batch("half")
    record, _ = one.queue._store.batch("half")
    one.link.set(path, replace(record, put=1).encode())

    assert one.queue.trim() == 2
    assert one.queue.trim() == 0

    assert one.queue.batches() == ["young", "half", "running"]
    assert one.places() == [0, 2, 4]


def with_one_to_forget(start: Callable[..., QueueSide]) -> QueueSide:
    """Return a queue with two batches that have ended, one more than are kept."""
    one = start(JobRules(keep_batches=1))
    for batch in ("old", "young"):
        one.queue.put(batch, TWO)
        one.queue.cancel(batch)
        one.now += 1
    return one


def test_old_batches_are_forgotten_with_what_stands_below_them(start: Callable[..., QueueSide]):
    one = with_one_to_forget(start)
    done = one.queue.names(JobState.DONE)[0]
    one.link.create(f"{one.queue._tree.job(JobState.DONE, done)}/note/deeper")
    one.link.create(f"{one.queue._tree.batch('old')}/note")

    assert one.queue.trim() == 2

    assert one.queue.batches() == ["young"]
    assert one.places() == [0, 0, 2]


def test_only_what_was_deleted_counts_as_forgotten(start: Callable[..., QueueSide]):
    one = with_one_to_forget(start)
    gone = one.queue._tree.job(JobState.DONE, one.queue.names(JobState.DONE)[0])
    one.link.before = lambda: one.link.delete(gone)

    assert one.queue.trim() == 1

    assert one.queue.batches() == ["young"]
    assert one.places() == [0, 0, 2]


def test_a_thousand_done_jobs_go_at_once(start: Callable[..., QueueSide]):
    one = start(JobRules(keep_jobs=1))
    one.queue.put("old", [(f"p{i}", {}) for i in range(1100)])
    one.queue.cancel("old")
    one.now += 1
    one.queue.put("new", TWO)

    assert one.queue.trim() == 1100

    assert one.places() == [2, 0, 0]
    assert one.queue.batches() == ["new"]


def test_jobs_of_long_names_are_forgotten_in_several_transactions(start: Callable[..., QueueSide]):
    one = start(JobRules(keep_jobs=1))
    long = "\U0001f600" * 200
    one.queue.put(long, [(f"p{i}", {}) for i in range(500)])
    one.queue.cancel(long)
    one.now += 1
    one.queue.put("new", [])

    assert one.queue.trim() == 500

    assert one.places() == [0, 0, 0]
    assert one.queue.batches() == ["new"]


def test_a_queue_that_was_cleared_away_can_be_used_again(one: QueueSide):
    one.queue.put("b", [])
    for path in reversed(one.queue._tree.all):
        for name in one.link.children(path):
            one.link.delete(f"{path}/{name}")
        one.link.delete(path)

    assert one.queue.put("b", TWO)
    assert len(one.take()) == 2


def answers(side: QueueSide) -> bool:
    try:
        side.link.children("/")
    except (Unavailable, SessionLost, NoNodeError):
        return False
    return side.link.session is not None


def noise(seed: int, size: int) -> str:
    """Return a text that does not become small."""
    from random import Random

    return Random(seed).randbytes(size // 2).hex()  # noqa: S311 - no secret


def test_a_queue_is_empty_while_it_has_no_job_to_do(one: QueueSide):
    assert not one.queue.is_empty, "nobody knows yet"
    one.take()
    assert one.queue.is_empty
    one.queue.put("b", TWO)
    claims = one.take()
    assert not one.queue.is_empty, "they were pending"
    one.take()
    assert not one.queue.is_empty, "they run"
    for claim in claims:
        one.queue.finish(claim, Outcome.DONE, {})
    one.take()
    assert one.queue.is_empty


def test_many_pending_jobs_are_listed_once_for_many_takes(
    one: QueueSide, other: QueueSide, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queue_module, "SHORT", 0)
    monkeypatch.setattr(queue_module, "LISTED", 1e-3)  # so that a list serves for hours
    one.queue.put("b", [(f"p{number}", {}) for number in range(20)])
    listed, children = [], one.link.children
    monkeypatch.setattr(
        one.link, "children", lambda path, watch=None: listed.append(path) or children(path, watch)
    )

    claims = [*one.take(room=5), other.take_one()]
    claims += [claim for _ in range(4) for claim in one.take(room=5)]

    places = one.queue._tree.place(JobState.PENDING)
    assert listed.count(places) == 1
    assert len({claim.name for claim in claims}) == len(claims) == 20
    eventually(lambda: one.queue.look_within < math.inf, "news of the claims")


def test_without_room_no_pending_job_is_listed(one: QueueSide, monkeypatch: pytest.MonkeyPatch):
    one.queue.put("b", TWO)
    listed, children = [], one.link.children
    monkeypatch.setattr(
        one.link, "children", lambda path, watch=None: listed.append(path) or children(path, watch)
    )

    assert one.take(room=0) == []

    assert one.queue._tree.place(JobState.PENDING) not in listed
    assert one.queue.look_within == math.inf


# --- many at a time -----------------------------------------------------------------------------

ABC = [(project, {}) for project in "abc"]


def test_many_jobs_that_another_moved_meanwhile_cost_no_round_trip_each(
    one: QueueSide, other: QueueSide, monkeypatch: pytest.MonkeyPatch
):
    one.queue.put("b", [(f"p{number}", {}) for number in range(90)])
    taken: list[Claim] = []
    one.link.before = lambda: taken.extend(other.take())
    sent: list[object] = []
    monkeypatch.setattr(one.link, "_do", _noting(sent, one.link._do))
    monkeypatch.setattr(one.link, "multi", _noting(sent, one.link.multi))
    monkeypatch.setattr(one.link, "look", _noting(sent, one.link.look))

    assert one.take() == []

    assert len(taken) == 90
    assert len(sent) < 30


def _noting(noted: list[object], call: Callable[..., T]) -> Callable[..., T]:
    """Return a call that is noted each time."""

    def noting(*args: object, **options: object) -> T:
        noted.append(args)
        return call(*args, **options)

    return noting


DONE = Verdict(Outcome.DONE)


def ends(claims: list[Claim]) -> list[Report]:
    return [Report(claim, {"at": 1}, verdict=DONE) for claim in claims]


def test_reports_that_got_lost_half_way_are_completed_by_another_try(one: QueueSide):
    one.queue.put("b", ABC)
    claims = one.take()
    one.link.lose, one.link.arrive = 1, 2
    with pytest.raises(Unavailable):
        one.queue.report_all(ends(claims))
    assert one.places() == [0, 1, 2]

    assert one.queue.report_all(ends(claims)) == [None, None, None]

    assert one.places() == [0, 0, 3]


def test_who_is_killed_between_reports_that_were_sent_together_loses_only_the_rest(
    one: QueueSide, other: QueueSide
):
    one.queue.put("b", ABC)
    claims = one.take()
    one.link.lose, one.link.arrive = 1, 2
    with pytest.raises(Unavailable):
        one.queue.report_all(ends(claims))
    one.die()

    (left,) = other.take()

    assert left.name.project == "c"
    assert other.places() == [0, 1, 2]


def test_a_job_at_fault_fails_no_other_that_is_reported_with_it(one: QueueSide, other: QueueSide):
    one.queue.put("b", ABC)
    lost, large, fine = one.take()
    other.queue.take(other.me, lambda project: 2 * (project == "a"), 1)
    reports = ends([lost, large, fine])
    noise = "".join(random.Random(1).choices(string.printable, k=2**20))  # noqa: S311
    reports[1] = replace(reports[1], progress={"text": noise})

    results = one.queue.report_all(reports)

    assert [type(result) for result in results] == [JobLost, BadMessage, type(None)]
    done = one.queue.batch("b").jobs[JobState.DONE]
    assert [name.project for name in done] == ["c"]


def test_what_is_cancelled_in_the_middle_of_a_report_ends_as_reported(
    one: QueueSide, other: QueueSide
):
    one.queue.put("b", ABC)
    claims = one.take()
    one.link.before = lambda: other.queue.cancel("b")

    goes_on = Report(claims[0], {"at": 1})
    first, *rest = one.queue.report_all([goes_on, *ends(claims[1:])])

    assert first.job.cancelled
    assert rest == [None, None]
    done = one.queue.batch("b").jobs[JobState.DONE].values()
    assert {job.outcome for job in done} == {Outcome.DONE}


def test_a_claim_that_another_was_faster_with_keeps_no_other_from_being_claimed(
    one: QueueSide, other: QueueSide
):
    one.queue.put("b", ABC)
    one.link.before = lambda: other.take(mine=lambda project: project == "b")

    assert [claim.name.project for claim in one.take()] == ["a", "c"]


def test_a_batch_that_is_cancelled_while_its_jobs_are_claimed_gives_none(
    one: QueueSide, other: QueueSide
):
    one.queue.put("b", ABC)
    one.link.before = lambda: other.queue.cancel("b")

    assert one.take() == []

    assert one.places() == [0, 0, 3]


def test_a_cancellation_is_told_by_a_watch(one: QueueSide, other: QueueSide):
    for batch in ("b", "kept"):
        one.queue.put(batch, ABC)
    told = threading.Event()
    assert one.queue.cancelled(["b", "kept", "unknown"], lambda _: told.set()) == set()

    other.queue.cancel("b")

    assert told.wait(60)
    assert one.queue.cancelled(["b", "kept"]) == {"b"}


def test_a_batch_is_told_without_its_jobs(one: QueueSide):
    one.queue.put("b", ABC, note={"who": "me"})
    assert one.queue.record("b").note == {"who": "me"}
    assert one.queue.record("unknown") is None
