"""The worker controller as a program uses it: processes are killed, and sessions end."""

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial

import pytest

from pyspider_zk import controller
from pyspider_zk.config import Settings
from pyspider_zk.controller import Change, Locks, WorkerController
from pyspider_zk.errors import ConfigError, Missing, NameTaken, SessionLost, TimedOut, Unavailable
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import connected
from tests.support.crew import Cable, expire
from tests.support.processes import ROOT, program

LONG = 60.0


class Process:
    """A participant in a process of its own."""

    def __init__(self, settings: Settings, group: str, **options: str) -> None:
        words = map(json.dumps, (asdict(settings), group, options))
        self._process = subprocess.Popen(
            [*program("far"), "participant", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> str:
        """Return its number, or why it did not get any."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def finish(self) -> None:
        """Let it leave."""
        self._process.communicate(timeout=LONG)


@pytest.fixture
def settings(cluster_settings: Settings) -> Settings:
    return cluster_settings


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[..., Process]]:
    """Give a function that starts processes of a group; end them afterwards."""
    processes: list[Process] = []

    def start(group: str = "crawl", session: float = 30.0, **options: str) -> Process:
        processes.append(Process(replace(settings, session=session), group, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.finish()


@pytest.mark.zk
def test_processes_that_start_at_once_get_numbers_from_zero(start, settings: Settings):
    processes = [start() for _ in range(4)]
    numbers = sorted(process.answer() for process in processes)

    assert numbers == ["0", "1", "2", "3"]
    with WorkerController(settings, "crawl") as me:
        assert me.number == 4
        assert len(me.wait_running(5, LONG)) == 5


@pytest.mark.zk
def test_a_killed_process_gets_its_number_back_when_it_returns(start, settings: Settings):
    with WorkerController(settings, "crawl", name="first") as me:
        killed = start(name="b", session=4.0)
        assert killed.answer() == "1"
        killed.kill()

        again = start(name="b")

        assert again.answer() == "1"
        assert [one.name for one in me.running()] == ["first", "b"]


@pytest.mark.zk
def test_a_second_run_is_refused_and_takes_over_when_the_first_is_dead(start):
    first = start(run="monday", session=20.0)
    assert first.answer() == "0"
    refused = start(run="tuesday")
    assert refused.answer().startswith("NameTaken: group 'crawl' is held by run 'monday'")

    first.kill()

    assert start(run="tuesday").answer() == "0"


@pytest.mark.zk
def test_the_last_of_several_processes_leaves_nothing_behind(start, settings: Settings):
    processes = [start() for _ in range(3)]
    for process in processes:
        process.answer()
    enders = [threading.Thread(target=process.finish) for process in processes]
    for ender in enders:
        ender.start()
    for ender in enders:
        ender.join()

    with connected(settings) as connection:
        assert connection.children(settings.root) == []


@pytest.mark.zk
def test_a_killed_process_is_named_at_the_barrier(start, settings: Settings):
    with WorkerController(settings, "crawl", name="a") as me:
        other = start(name="b", session=4.0)
        other.answer()
        other.kill()
        me.wait_alone(LONG)

        with pytest.raises(Missing) as missing:
            me.barrier("step", 2).wait(timeout=0.1)

    assert missing.value.missing == ("number 1 (b), which is gone",)


@pytest.mark.zk
def test_those_that_left_count_as_joined_but_do_not_run(settings: Settings):
    with WorkerController(settings, "crawl", name="a") as me:
        with WorkerController(settings, "crawl", name="b") as other:
            assert [one.name for one in me.wait_joined(2, LONG)] == ["a", "b"]
            assert [one.name for one in other.running()] == ["a", "b"]
            with pytest.raises(TimedOut, match=r"still running after 0 s: number 1 \(b\) on"):
                me.wait_alone(0)
        me.wait_alone(LONG)

        assert [one.name for one in me.wait_joined(2, 0)] == ["a", "b"]
        with pytest.raises(Missing, match="missing: 1 that never joined"):
            me.wait_joined(3, 0)
        with pytest.raises(Missing) as missing:
            me.wait_running(3, 0)

    assert missing.value.missing == ("number 1 (b), which is gone", "1 that never joined")


@pytest.mark.zk
def test_waiting_ends_as_soon_as_the_last_has_joined(settings: Settings):
    with WorkerController(settings, "crawl") as me:
        found: queue.SimpleQueue[int] = queue.SimpleQueue()
        waiter = threading.Thread(target=lambda: found.put(len(me.wait_running(2, LONG))))
        waiter.start()
        with WorkerController(settings, "crawl"):
            assert found.get(timeout=LONG) == 2
        waiter.join()


@pytest.mark.zk
@pytest.mark.parametrize("waits", ["wait_joined", "wait_running"])
def test_one_that_joins_later_is_seen(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, waits: str
):
    with WorkerController(settings, "crawl") as me, ExitStack() as later:
        looked, children = threading.Event(), Connection.children

        def look(*args, **options):
            found = children(*args, **options)
            looked.set()
            return found

        monkeypatch.setattr(Connection, "children", look)
        found: queue.SimpleQueue[int] = queue.SimpleQueue()
        waiter = threading.Thread(target=lambda: found.put(len(getattr(me, waits)(2, LONG))))
        waiter.start()
        assert looked.wait(LONG)

        later.enter_context(WorkerController(settings, "crawl"))

        assert found.get(timeout=LONG / 2) == 2
        waiter.join()


@pytest.mark.zk
def test_locks_are_the_groups_own(settings: Settings):
    with WorkerController(settings, "crawl") as me, WorkerController(settings, "other") as other:
        with me.lock("report", timeout=LONG), other.lock("report", timeout=LONG) as lock:
            lock.check()
            with pytest.raises(TimedOut):
                me.shared_lock("report", timeout=0).acquire()
        with me.shared_lock("report", timeout=0), me.shared_lock("report", timeout=0):
            pass


@pytest.mark.zk
def test_locks_serve_those_in_no_group_too(settings: Settings):
    with Locks(settings) as mine, Locks(settings) as theirs:
        with mine.lock("report"), pytest.raises(TimedOut):
            theirs.shared_lock("report", timeout=0).acquire()
        with theirs.shared_lock("report", timeout=LONG), mine.shared_lock("report", timeout=LONG):
            pass
        with pytest.raises(ConfigError):
            mine.lock("a/b")


@pytest.mark.zk
def test_a_lock_of_a_group_that_was_left_cannot_be_had(settings: Settings):
    with WorkerController(settings, "crawl") as me:
        lock = me.lock("report", timeout=LONG)
        me.leave()
        with pytest.raises(SessionLost):
            lock.acquire()
        me.join()
        with me.lock("report", timeout=LONG):
            pass


@pytest.mark.zk
def test_a_participant_that_is_refused_does_not_stay_connected(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    with WorkerController(settings, "crawl", name="a"):
        second = WorkerController(settings, "crawl", name="a")
        monkeypatch.setattr(second, "join", partial(second.join, 10.0))
        with pytest.raises(NameTaken):
            second.__enter__()
        assert not second._connection.connected


def test_without_zookeeper_the_address_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Connection.start, "__defaults__", (0.2,))
    with pytest.raises(Unavailable, match=r"no ZooKeeper answers at 127\.0\.0\.1:9"):
        WorkerController(Settings(hosts="127.0.0.1:9"), "crawl").__enter__()


def test_a_group_name_that_no_znode_may_have_is_refused():
    with pytest.raises(ConfigError, match="group: 'a/b' cannot be its name"):
        WorkerController(Settings(), "a/b")


@pytest.mark.zk
def test_a_lost_session_is_told_and_joining_again_gets_the_number_back(settings: Settings):
    changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
    with WorkerController(settings, "crawl", name="a") as me:
        me.listen(changes.put)
        expire(me._connection)
        for awaited in (Change.LOST, Change.BACK):
            while changes.get(timeout=LONG) is not awaited:
                pass

        with pytest.raises(SessionLost):
            _ = me.number
        with pytest.raises(SessionLost):
            me.wait_running(1, 0)
        with pytest.raises(SessionLost):
            me.barrier("step", 1)

        assert me.join() == 0
        assert me.barrier("step", 1).wait(LONG) == 0


@pytest.mark.zk
def test_the_last_that_lost_its_session_still_clears_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller, "LEAVING", LONG)
    changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
    with WorkerController(settings, "crawl") as me:
        me.listen(changes.put)
        expire(me._connection)
        while changes.get(timeout=LONG) is not Change.LOST:
            pass

    with WorkerController(settings, "other") as other:
        assert other._connection.children(f"{settings.root}/groups") == ["other"]


@pytest.mark.zk
def test_behind_a_silent_link_the_number_is_given_up_and_can_be_had_again(
    settings: Settings, cable: Cable
):
    changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
    far = replace(settings, hosts=cable.address, session=4.0)
    with WorkerController(far, "crawl", name="a") as me:
        me.listen(changes.put)
        cable.cut()
        cable.drop()
        assert [changes.get(timeout=LONG), changes.get(timeout=LONG)] == ["suspended", "lost"]

        with pytest.raises(SessionLost):
            _ = me.number

        cable.mend()
        assert me.join(LONG) == 0
        assert [one.number for one in me.running()] == [0]


@pytest.mark.zk
def test_leaving_goes_on_in_another_session(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    with WorkerController(settings, "crawl") as me:
        leave = me._group.leave

        def lost_at_first() -> None:
            monkeypatch.setattr(me._group, "leave", leave)
            raise SessionLost("the ZooKeeper session ended")

        monkeypatch.setattr(me._group, "leave", lost_at_first)
        me.leave()

        assert me._connection.children(settings.root) == []
