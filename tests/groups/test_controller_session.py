"""A worker controller whose session ends, or may have ended."""

import queue
from dataclasses import replace

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.controller import Change, SessionLost, WorkerController
from tests.support.crew import Cable, expire

pytestmark = pytest.mark.zk

LONG = 60.0


def test_a_lost_session_is_told_and_joining_again_gets_the_number_back(settings: Settings):
    changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
    with WorkerController(settings, "crawl", name="a") as me:
        me.listen(changes.put)
        expire(me._connection)
        while changes.get(timeout=LONG) is not Change.BACK:
            pass

        with pytest.raises(SessionLost):
            _ = me.number
        with pytest.raises(SessionLost):
            me.wait_running(1, 0)
        with pytest.raises(SessionLost):
            me.barrier("step", 1)

        assert me.join() == 0
        assert me.barrier("step", 1).wait(LONG) == 0


def test_the_last_that_lost_its_session_still_clears_up(settings: Settings):
    changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
    with WorkerController(settings, "crawl") as me:
        me.listen(changes.put)
        expire(me._connection)
        while changes.get(timeout=LONG) is not Change.LOST:
            pass

    with WorkerController(settings, "other") as other:
        assert other._connection.children(f"{settings.root}/groups") == ["other"]


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
        assert me.join() == 0
        assert [one.number for one in me.running()] == [0]


def test_leaving_goes_on_in_another_session(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    with WorkerController(settings, "crawl") as me:
        leave = me._group.leave

        def lost_at_first() -> None:
            monkeypatch.setattr(me._group, "leave", leave)
            raise SessionLost("the ZooKeeper session ended")

        monkeypatch.setattr(me._group, "leave", lost_at_first)
        me.leave()

        assert me._connection.children(settings.root) == []
