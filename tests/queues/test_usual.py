"""Usual messages pass the checks and are read as any; what components send is usual."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Delivery
from pyspider_zk.queues.codec import decode, decode_delivered
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import PARTS, check_pack, check_task
from pyspider_zk.queues.usual import UsualMessage, UsualSchedule, usual_message

TASK = {
    "taskid": "t",
    "project": "p",
    "url": "http://site.example/",
    "schedule": {"age": 864000, "priority": 2, "itag": "v1", "force_update": True},
    "fetch": {"headers": {"User-Agent": "me"}, "timeout": 9.5},
    "process": {"callback": "page"},
}
REPORT = {"ok": True, "time": 0.01}
PACK = {**TASK, "track": {"fetch": REPORT, "process": {**REPORT, "follows": 3}, "save": None}}

NEW, STATUS = QueueKind.NEWTASK, QueueKind.STATUS

SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 2**63, -(2**63), 2**64 - 1, 1e300])
    | st.floats()
    | st.sampled_from(["", "t", "p", "no name", "\0", "ü", "\ud800", "x" * 300])
    | st.binary(max_size=2)
    | st.just(msgpack.Timestamp(1, 0))
)
KEYS = st.sampled_from(["a", "\ud800", 1, b"a", None])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=3
)
PLAIN = st.sampled_from([1, 2.5, "text", True, None, {}, {"a": "é", "b": {"c": 1.5}}])
NAMES = (*TASK, "track", "status", "updatetime", "strange", b"url")
WITHIN = ("age", "itag", "priority", "a", "ok", "time", "headers", "fetch", "process", "save")


def sent(message: object) -> bytes:
    """Return a message as somebody sent it, who also sends halves of characters."""
    raw: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
    return raw


def changed(message: dict[Any, Any], changes: list[tuple[Any, str, Any]]) -> dict[Any, Any]:
    """Return a message in which some values, or values within a part, are others."""
    for name, within, value in changes:
        part = message.get(name)
        other = {**part, within: value} if within and isinstance(part, dict) else value
        message = {**message, name: other}
    return message


def damaged(raw: bytes, damages: list[tuple[int, int, bytes]]) -> bytes:
    """Return bytes in which some are cut out, or replaced."""
    for where, count, instead in damages:
        begin = where % len(raw) if raw else 0
        raw = raw[:begin] + instead + raw[begin + count :]
    return raw


PLACES = st.sampled_from(["schedule", "fetch", "process"]) | st.sampled_from(NAMES)
CHANGES = st.lists(
    st.tuples(PLACES, st.sampled_from(["", *WITHIN]), PLAIN | VALUES),
    max_size=2,
)
DAMAGES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 2), st.binary(max_size=2)), max_size=3
)


def check(kind: QueueKind, raw: bytes) -> None:
    """Check a message if it is usual: its tasks, and that it says what any decoder reads."""
    message = usual_message(kind, raw)
    if message is None:
        return
    body = decode(raw)
    tasks = body if isinstance(body, list) else [body]
    for task in tasks:
        check_task(task)
        if kind is STATUS:
            check_pack(task)
    assert message.projects == {task["project"] for task in tasks}
    if kind is STATUS:
        assert repr(sorted(message.body.items())) == repr(sorted(body.items()))
        assert not message.tasks
        return
    assert repr(message.body) == repr(body)
    assert repr([message.decoded(number) for number in range(len(tasks))]) == repr(tasks)
    for light, task in zip(message.tasks, tasks, strict=True):
        assert (light.taskid, light.project, light.url) == tuple(
            task[key] for key in list(TASK)[:3]
        )
        schedule = task.get("schedule", {})
        for name in UsualSchedule.__struct_fields__:
            assert repr(getattr(light.schedule, name)) == repr(schedule.get(name))


# --- whatever is sent ---------------------------------------------------------------------------


@given(CHANGES)
def test_usual_tasks_are_tasks_and_are_read_as_sent(changes: list[tuple[Any, str, Any]]) -> None:
    task = changed(TASK, changes)
    check(NEW, sent([TASK, task]))
    check(NEW, sent(task))


@given(CHANGES)
def test_a_usual_pack_is_a_pack_and_is_read_as_sent(changes: list[tuple[Any, str, Any]]) -> None:
    check(STATUS, sent(changed(PACK, changes)))


@given(DAMAGES)
def test_damaged_messages_are_not_usual_or_are_read_as_any(
    damages: list[tuple[int, int, bytes]],
) -> None:
    check(NEW, damaged(sent([TASK, TASK]), damages))
    check(STATUS, damaged(sent(PACK), damages))


def test_a_key_that_comes_twice_counts_as_it_does_elsewhere() -> None:
    pairs = [("taskid", "s"), ("project", "p"), ("fetch", {"a": 1}), ("url", "u")]
    pairs += [("taskid", "t"), ("fetch", {"b": 2})]
    raw = b"\x86" + b"".join(sent(key) + sent(value) for key, value in pairs)
    message = usual_message(NEW, raw)
    assert message
    assert message.body == {"taskid": "t", "project": "p", "url": "u", "fetch": {"b": 2}}
    check(NEW, raw)


# --- what components send -----------------------------------------------------------------------


def projects(kind: QueueKind, message: object) -> object:
    """Return the projects of a message if it is usual, else None."""
    found = usual_message(kind, sent(message))
    return found and found.projects


def test_what_components_send_is_usual() -> None:
    bare = {key: value for key, value in TASK.items() if key not in PARTS}
    assert projects(NEW, [TASK, {**bare, "project": "q", "url": "http://é/"}]) == {"p", "q"}
    assert projects(NEW, TASK) == {"p"}
    assert projects(STATUS, PACK) == {"p"}
    assert projects(STATUS, {**bare, "track": PACK["track"]}) == {"p"}


@pytest.mark.parametrize(
    "task",
    [
        *({}, 7, PACK, {**TASK, "taskid": 7}, {**TASK, "group": "g"}, {**TASK, "url": "a\0"}),
        *({**TASK, "project": "no name"}, {**TASK, "fetch": {"a": 2**63}}),
        *({**TASK, "schedule": {"age": "1"}}, {**TASK, "schedule": None}),
        *({**TASK, "fetch": {"a": b"b"}}, {**TASK, "fetch": {"a": float("nan")}}),
    ],
    ids=repr,
)
def test_one_that_is_not_usual_makes_its_message_unusual(task: object) -> None:
    assert projects(NEW, [TASK]) == {"p"}
    assert not projects(NEW, [TASK, task])


@pytest.mark.parametrize("pack", [{}, [], TASK, {**PACK, "status": 1}, [PACK]])
def test_a_pack_without_a_report_is_not_usual(pack: object) -> None:
    assert not projects(STATUS, pack)


def test_no_message_is_usual_that_is_empty_or_followed_by_more() -> None:
    assert not projects(NEW, [])
    assert not usual_message(NEW, b"")
    assert not usual_message(NEW, sent(TASK) + b"\xc0")


# --- delivered ----------------------------------------------------------------------------------


def test_a_usual_message_is_decoded_when_its_body_is_asked_for() -> None:
    delivery = Delivery(NEW, 1, "1-0", *decode_delivered(NEW, sent([TASK])))
    assert isinstance(delivery.usual, UsualMessage)
    assert delivery.projects == {"p"}
    assert delivery.body == [TASK]
    assert delivery.body is delivery.body  # the tasks of a message that is left over stay the same


def test_what_is_decoded_alone_may_be_changed() -> None:
    message = usual_message(NEW, sent([TASK, TASK]))
    assert message
    message.decoded(1).clear()
    assert message.decoded(1) == message.body[1] == TASK


@pytest.mark.parametrize("body", [[TASK, 7], {**TASK, "status": 1}, [], "text", None])
def test_any_other_message_is_delivered_as_it_is(body: object) -> None:
    delivery = Delivery(NEW, 1, "1-0", *decode_delivered(NEW, sent(body)))
    assert delivery.usual is None
    assert (delivery.body, delivery.projects) == (body, set())


def test_usual_messages_have_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "TASKS", 2)
    decode_delivered(NEW, sent([TASK, TASK]))
    with pytest.raises(BadMessage, match="has 3 tasks, the limit is 2"):
        decode_delivered(NEW, sent([TASK] * 3))
    monkeypatch.setattr(caps, "MESSAGE", 100)
    with pytest.raises(BadMessage, match="bytes, the limit is 100"):
        decode_delivered(NEW, sent([TASK]))
