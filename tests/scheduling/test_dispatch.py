"""Tasks go to the fetchers together, in order, and none is lost for want of room."""

import logging
import queue
from contextlib import suppress
from typing import Any

import pytest

from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.resilient import ResilientQueue
from pyspider_zk.scheduling.dispatch import BATCH, Dispatch


class Fetchers(ResilientQueue):
    """A queue that cannot encode some tasks."""

    def __init__(self, room: int) -> None:
        self.inner: queue.Queue[dict[str, Any]] = queue.Queue(room)
        super().__init__(self.inner, BackOff(logging.getLogger(), "tasks wait"))

    def packed(self, body: Any) -> Any:
        if body["taskid"] == "bad":
            raise ValueError("no wire form")
        return super().packed(body)

    def taken(self) -> list[str]:
        found = []
        while not self.inner.empty():
            found.append(self.inner.get_nowait()["taskid"])
        return found


class Out:
    """A dispatch with its queue, its buffer, and a fence that closes at a task."""

    def __init__(self, room: int = 0, waiting: str = "") -> None:
        self.queue = Fetchers(room)
        self.closed_at = ""
        self.late: list[str] = []
        self.dispatch = Dispatch(
            lambda: self.queue,
            may_send=lambda project: project != self.closed_at,
            on_sent=lambda task: self.late.append(task["taskid"]),
        )
        self.waiting = self.dispatch.waiting
        self.dispatch.wait(task(each) for each in waiting)

    def left(self) -> str:
        return "".join(each["taskid"] for each in reversed(self.waiting))


def task(taskid: str) -> dict[str, Any]:
    return {"project": "p", "taskid": taskid}


def collect(out: Out, taskids: str) -> None:
    with out.dispatch.collecting():
        for each in taskids:
            out.dispatch.send(task(each))


def test_what_a_block_adds_is_sent_at_its_end() -> None:
    out = Out()
    with out.dispatch.collecting():
        out.dispatch.send(task("a"))
        out.dispatch.send(task("b"))
        assert out.queue.inner.empty()
    assert out.queue.taken() == ["a", "b"]


def test_what_a_block_has_added_is_sent_though_it_fails() -> None:
    out = Out()
    with suppress(KeyError), out.dispatch.collecting():
        out.dispatch.send(task("a"))
        raise KeyError
    assert out.queue.taken() == ["a"]
    collect(out, "b")
    assert out.queue.taken() == ["b"]


def test_a_task_that_cannot_be_encoded_fails_where_it_is_added() -> None:
    out = Out()
    with out.dispatch.collecting():
        out.dispatch.send(task("a"))
        with pytest.raises(ValueError, match="no wire form"):
            out.dispatch.send(task("bad"))
    assert out.queue.taken() == ["a"]


def test_what_finds_no_room_waits_behind_what_waits_already() -> None:
    out = Out(room=2, waiting="xy")
    collect(out, "abcd")
    assert out.queue.taken() == ["a", "b"]
    assert out.left() == "xycd"


def test_what_waits_is_sent_in_order_as_room_comes() -> None:
    out = Out(room=2, waiting="abcde")
    out.dispatch.send_waiting()
    assert (out.queue.taken(), out.left()) == (["a", "b"], "cde")
    out.dispatch.send_waiting()
    assert (out.queue.taken(), out.left()) == (["c", "d"], "e")


def test_more_than_a_batch_is_sent_if_there_is_room() -> None:
    out = Out()
    names = [f"t{number}" for number in range(2 * BATCH + 1)]
    out.waiting.extendleft(task(each) for each in names)
    out.dispatch.send_waiting()
    assert out.queue.taken() == names


def test_a_closed_fence_keeps_its_task_and_all_behind_it() -> None:
    out = Out(waiting="abcd")
    for each in out.waiting:
        each["project"] = each["taskid"]
    out.closed_at = "c"
    out.dispatch.send_waiting()
    assert (out.queue.taken(), out.left()) == (["a", "b"], "cd")
    with out.dispatch.collecting():
        for each in "fcg":
            out.dispatch.send({"project": each, "taskid": each})
    assert (out.queue.taken(), out.left()) == (["f"], "cdcg")


def test_a_waiting_task_that_cannot_be_encoded_is_dropped() -> None:
    out = Out()
    out.waiting.extendleft([task("a"), task("bad"), task("b")])
    out.dispatch.send_waiting()
    assert (out.queue.taken(), out.left()) == (["a", "b"], "")


def test_only_what_had_waited_is_told_when_it_is_sent() -> None:
    out = Out(room=2, waiting="abc")
    out.dispatch.send_waiting()
    assert out.late == ["a", "b"]
    out.queue.taken()
    collect(out, "xy")
    assert out.late == ["a", "b"]


def test_what_is_answered_while_it_waits_is_not_sent() -> None:
    out = Out(waiting="abca")
    out.dispatch.withdraw("p", "a")
    out.dispatch.withdraw("q", "b")
    out.dispatch.withdraw("p", "z")
    out.dispatch.send_waiting()
    assert out.queue.taken() == ["b", "c"]


def test_what_began_to_wait_after_a_round_is_withdrawn_in_the_next() -> None:
    out = Out(room=1, waiting="ab")
    out.dispatch.withdraw("p", "z")
    out.dispatch.send_waiting()
    collect(out, "c")
    out.dispatch.withdraw("p", "c")
    out.queue.taken()
    out.dispatch.send_waiting()
    assert (out.queue.taken(), out.left()) == (["b"], "")


def test_what_waits_in_front_of_all_others_can_be_withdrawn() -> None:
    out = Out(waiting="c")
    out.dispatch.withdraw("p", "x")
    out.dispatch.go_first([task("a"), task("b")])
    assert out.left() == "abc"

    out.dispatch.withdraw("p", "a")

    assert out.left() == "bc"
