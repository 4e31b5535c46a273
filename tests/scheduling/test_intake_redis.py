"""A member dies with messages in hand, in a real Redis: nothing is lost, nothing counts twice."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspider.message_queue import connect_message_queue
from umsgpack import packb as packed  # type: ignore[import-untyped]

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.api import Delivery, Queues, SlotQueues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.consumer import Consumer
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.resilient import ResilientQueue
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.queues.away import AwayQueue
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted, read_and_write

pytestmark = pytest.mark.redis

Task = Callable[..., dict[str, Any]]


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class RedisBroker:
    """Gives each simulated process its own connection to a real Redis."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: list[Queues] = []

    def queues(self, slots: int, limit: int = 0) -> Queues:
        self._opened.append(connect(self._url, limit, slots))
        return self._opened[-1]

    def close(self) -> None:
        for queues in self._opened:
            queues.close()


@pytest.fixture
def world(tmp_path: Path, redis_url: str) -> Iterator[World]:
    """Give a world whose message queue is a real Redis, with a project that runs."""
    made, broker = World(tmp_path), RedisBroker(redis_url)
    made.broker = broker  # type: ignore[assignment]
    made.queues = broker.queues(SLOTS)
    made.project("p")
    made.script_is_known("p")
    yield made
    broker.close()


def slot_queues(scheduler: SlotScheduler) -> Any:
    return scheduler.queues.slot_queues


def die(*_: Any, **__: Any) -> None:
    raise Killed


def unapplied(world: World) -> int:
    return sum(world.queues.slot_queues.lengths().values())


def counted(scheduler: SlotScheduler) -> dict[str, int]:
    found: dict[str, int] = scheduler.engine.counters["all"].to_dict("sum")["p"]
    return found


def run(scheduler: SlotScheduler, rounds: int = 1) -> None:
    for _ in range(rounds):
        scheduler.run_once()


# -- death -------------------------------------------------------------------------------------


def test_what_a_dead_member_read_comes_back_at_once(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a member that dies between reading and applying
    first = world.scheduler()
    run(first)
    world.new(*(task("p", str(number)) for number in range(20)))
    monkeypatch.setattr(first.engine, "insert_task", die)
    with pytest.raises(Killed):
        run(first)
    assert unapplied(world) == 20
    # when
    run(world.scheduler())
    # then
    assert sorted(world.statuses("p")) == sorted(map(str, range(20)))
    assert unapplied(world) == 0


def test_new_tasks_that_were_written_and_not_acknowledged_are_written_once(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a member that dies between the task database and the acknowledgement
    first = world.scheduler()
    run(first)
    world.new(*(task("p", str(number)) for number in range(20)))
    _apply_and_die(first, monkeypatch)
    assert len(world.statuses("p")) == unapplied(world) == 20
    # when
    second = world.scheduler()
    world.script_is_known("p")
    run(second, rounds=3)
    # then
    assert unapplied(world) == 0
    sent = [each["taskid"] for each in world.dispatched()]
    assert sorted(sent) == sorted(map(str, range(20)))
    assert counted(second)["pending"] == 20


def test_a_status_pack_that_was_written_and_not_acknowledged_counts_once(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    first = world.scheduler()
    world.new(task("p", "t"))
    run(first, rounds=2)
    (sent,) = world.dispatched()
    world.finish(sent)
    _apply_and_die(first, monkeypatch)
    assert (world.statuses("p"), unapplied(world)) == ({"t": 2}, 1)
    # when
    second = world.scheduler()
    world.script_is_known("p")
    run(second, rounds=3)
    # then
    assert (world.statuses("p"), unapplied(world)) == ({"t": 2}, 0)
    assert world.dispatched() == []
    assert (counted(second)["success"], counted(second).get("pending", 0)) == (1, 0)


def test_a_postponed_request_survives_its_member(world: World, task: Task) -> None:
    # given a task that is with the fetcher, and is to be changed by force
    first = world.scheduler()
    world.new(task("p", "t"))
    run(first, rounds=2)
    (sent,) = world.dispatched()
    world.new(task("p", "t", force_update=True, priority=7))
    run(first)
    assert unapplied(world) == 0
    assert [each.length for each in world.queues.parking_lot.waiting().values()] == [1]
    # when the member dies and the fetch ends
    world.finish(sent)
    second = world.scheduler()
    world.script_is_known("p")
    run(second, rounds=3)
    # then it was changed after it was done
    assert not world.queues.parking_lot.waiting()
    (again,) = world.dispatched()
    assert again["schedule"]["priority"] == 7


def test_what_is_selected_while_the_fetchers_queue_is_away_is_sent_later(
    world: World, task: Task
) -> None:
    # given
    scheduler = world.scheduler()
    fetchers = AwayQueue()
    back_off = BackOff(logging.getLogger("scheduler"), "scheduling waits", pause=1e-9)
    scheduler.engine.out_queue = ResilientQueue(fetchers, back_off)
    world.new(*(task("p", str(number)) for number in range(20)))
    read_and_write(scheduler)
    # when it goes away between two tasks
    fetchers.put, put = _gone_after(fetchers, 7), fetchers.put  # type: ignore[method-assign]
    run(scheduler, rounds=3)
    fetchers.put, fetchers.away = put, False  # type: ignore[method-assign]
    run(scheduler, rounds=3)
    # then
    sent = [each["taskid"] for each in fetchers.queue if each["taskid"] != "_on_get_info"]
    assert sorted(sent) == sorted(map(str, range(20)))


def _gone_after(fetchers: AwayQueue, number: int) -> Callable[..., None]:
    put = fetchers.put

    def put_or_go(*args: Any, **kwargs: Any) -> None:
        fetchers.away = len(fetchers.queue) >= number
        put(*args, **kwargs)

    return put_or_go


def test_a_page_that_asks_for_itself_is_sent_again_though_many_packs_wait(
    world: World, task: Task
) -> None:
    scheduler = world.scheduler()
    world.new(*(task("p", f"t{number}") for number in range(9)))
    run(scheduler, rounds=2)
    *others, page = world.dispatched()
    scheduler.engine.LOOP_LIMIT = 2
    for each in others:
        world.finish(each)
    world.new(task("p", page["taskid"], age=0))
    world.finish(page)
    run(scheduler, rounds=7)

    assert [each["taskid"] for each in world.dispatched()] == [page["taskid"]]
    assert unapplied(world) == 0


# -- the bound -----------------------------------------------------------------------------------


class Watched:
    """Slot queues that count how many messages their reader holds at most.

    Attributes:
        most: that number, by kind.
    """

    def __init__(self, queues: SlotQueues) -> None:
        self._queues = queues
        self._held: dict[QueueKind, set[str]] = {kind: set() for kind in QueueKind}
        self.most = dict.fromkeys(QueueKind, 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queues, name)

    def read(
        self, kind: QueueKind, limit: int, ready: Collection[int] | None = None
    ) -> list[Delivery]:
        found = self._queues.read(kind, limit, ready)
        self._held[kind] |= {each.tag for each in found}
        self.most[kind] = max(self.most[kind], len(self._held[kind]))
        return found

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._queues.acknowledge(deliveries)
        for each in deliveries:
            self._held[each.kind].discard(each.tag)


def test_a_member_never_holds_more_than_its_limit(world: World, task: Task) -> None:
    # given
    scheduler = world.scheduler()
    scheduler.engine.LOOP_LIMIT = 5
    watched = scheduler.intake._queues = Watched(slot_queues(scheduler))  # type: ignore[assignment]
    world.new(*(task("p", str(number)) for number in range(12)))
    run(scheduler, rounds=6)
    # when nearly all that arrives must wait until it is fetched
    sent = {each["taskid"]: each for each in world.dispatched()}
    world.new(*(task("p", name, force_update=True) for name in sent))
    world.new(*(task("p", f"new {number}") for number in range(8)))
    run(scheduler, rounds=6)
    # then
    assert watched.most[QueueKind.NEWTASK] == 5  # type: ignore[attr-defined]
    # and it goes on once they are fetched
    for each in sent.values():
        world.finish(each)
    run(scheduler, rounds=12)
    assert len(world.statuses("p")) == 20
    assert unapplied(world) == 0
    assert watched.most == dict.fromkeys(QueueKind, 5)  # type: ignore[attr-defined]


def test_a_member_that_cannot_acknowledge_reads_no_further(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a Redis that can be read and not written
    scheduler = world.scheduler()
    scheduler.engine.LOOP_LIMIT = 5
    run(scheduler)
    world.new(*(task("p", str(number)) for number in range(20)))

    # when
    with monkeypatch.context() as patched:
        patched.setattr("pyspider_zk.queues.redis_streams._tidy", _refuse)
        for _ in range(4):
            with suppress(Unavailable):
                run(scheduler)
        # then
        assert len(world.statuses("p")) == 5
    # and
    run(scheduler, rounds=5)
    assert len(world.statuses("p")) == 20
    assert unapplied(world) == 0


def test_what_was_applied_while_it_could_not_be_acknowledged_is_not_done_again_after_a_move(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a task that is asked for by force, while Redis can be read and not written
    owner = SoleOwner(SLOTS)
    first = world.scheduler(owner)
    run(first)
    world.new(task("p", "t", force_update=True))
    with monkeypatch.context() as patched:
        patched.setattr("pyspider_zk.queues.redis_streams._tidy", _refuse)
        with pytest.raises(Unavailable):
            run(first)
    assert unapplied(world) == 1
    # when its slot moves before anything else is read, and it is done
    owner.ask_back(range(SLOTS))
    run(first)
    second = world.scheduler(granted(epoch=2))
    run(second, rounds=2)
    (sent,) = [each for each in world.dispatched() if each["taskid"] == "t"]
    world.finish(sent)
    run(second, rounds=3)
    # then
    assert (world.dispatched(), world.statuses("p")) == ([], {"t": 2})


def _refuse(*_: Any) -> None:
    raise Unavailable("Redis can be read only")


def _apply_and_die(scheduler: SlotScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply what there is; die before any of it is acknowledged."""
    with monkeypatch.context() as patched:
        patched.setattr("pyspider_zk.queues.redis_streams._tidy", die)
        read_and_write(scheduler)
        with pytest.raises(Killed):
            scheduler.applier.acknowledge()


# -- what fetchers and processors have -------------------------------------------------------------

FIVE = [f"t{number}" for number in range(5)]


class Fetching:
    """Fetchers and processors in a real Redis, and a scheduler that sends and dies."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.tasks = connect_message_queue("scheduler2fetcher", url)
        self.pages = connect_message_queue("fetcher2processor", url)
        world.fetcher = self.tasks
        self._back_off = BackOff(logging.getLogger(), "it waits")

    def consumer(self, inner: Any) -> Consumer:
        return Consumer(inner, self._back_off, lambda _: None, logging.getLogger(), "ours")

    def fetch(self) -> None:
        """Take three tasks, and let pages of two be ready, of which a processor has one."""
        fetcher = self.consumer(self.tasks)
        taken = [each for each in fetcher.take(4) if each.body["taskid"] in FIVE][:3]
        for number, task in taken[:2]:
            self.pages.put((task, {"content": "x" * 100_000}))
            fetcher.acknowledge(number)
        fetcher.settle()
        self.consumer(self.pages).take(1)

    def next_owner(self) -> SlotScheduler:
        """Let another scheduler take over, and do some rounds."""
        scheduler = self.world.scheduler()
        self.world.script_is_known("p")
        run(scheduler, rounds=5)
        return scheduler

    def sent(self) -> list[str]:
        """Take what waits for fetchers; return the ids."""
        return sorted(each["taskid"] for each in self.world.dispatched())


@pytest.fixture
def fetching(world: World, redis_url: str, task: Task) -> Fetching:
    made = Fetching(world, redis_url)
    world.new(*(task("p", taskid) for taskid in FIVE))
    run(world.scheduler(), rounds=3)
    assert made.tasks.qsize() == 6  # one is pyspider's own question
    return made


def test_what_a_dead_scheduler_had_sent_is_not_sent_again(fetching: Fetching, world: World) -> None:
    fetching.fetch()
    waiting = fetching.tasks.qsize()
    scheduler = fetching.next_owner()
    assert fetching.tasks.qsize() == waiting
    for taskid in FIVE:
        world.finish({"taskid": taskid, "project": "p", "url": "data:,x"})
    run(scheduler, rounds=3)
    assert set(world.statuses("p").values()) == {2}
    assert counted(scheduler)["success"] == 5


def test_what_nobody_has_any_more_is_sent_again(fetching: Fetching) -> None:
    lost = {fetching.tasks.get_nowait()["taskid"] for _ in range(3)}.intersection(FIVE)
    fetching.next_owner()
    sent = fetching.sent()
    assert sorted(sent) == FIVE
    assert len(lost) >= 2


@pytest.mark.parametrize("status", [2, 3])
def test_a_task_that_has_ended_is_not_in_flight(
    fetching: Fetching, world: World, status: int
) -> None:
    """Its fetcher has it yet, as it has told nobody that it is done."""
    fetching.consumer(fetching.tasks).take(6)
    world.taskdb._list_project()
    world.taskdb.update("p", FIVE[0], status=status)
    scheduler = fetching.next_owner()
    window = scheduler.engine.projects["p"].task_queue
    assert not window.is_processing(FIVE[0])
    assert all(window.is_processing(taskid) for taskid in FIVE[1:])
    assert fetching.sent() == []


JUNK = [
    b"",
    b"\xc1",
    b"\x92\x01",
    packed(7),
    packed({"project": 7, "taskid": "t0"}),
    packed({"project": "p", "taskid": ["t0"]}),
    packed({"project": "p", "taskid": "t0", "fetch": "x", "process": 7}),
    packed([7, 7]),
    packed({"project": "p", "taskid": "t0", "process": {"process_time_limit": "x"}})[:-3],
]


def test_junk_among_the_tasks_stops_nobody(fetching: Fetching, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for key in ("scheduler2fetcher", "fetcher2processor"):
            client.lpush(key, *JUNK)
            client.sadd(f"{key}:takers", "junk", b"\xff")
            client.set(f"{key}:taken:junk", "x")
    waiting = fetching.tasks.qsize()
    scheduler = fetching.next_owner()
    assert "p" not in scheduler.quarantine
    assert fetching.tasks.qsize() == waiting
