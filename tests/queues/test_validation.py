"""Messages that are found valid pass the checks and are read as any."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.codec import decode, decode_delivered
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import check_pack, check_task, is_valid
from pyspider_zk.tasks.documents import DOCUMENTS

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
    """Check a message if it is valid: its task, and that it is read as any decoder reads it."""
    if not is_valid(kind, raw):
        return
    body = decode(raw)
    check_task(body)
    if kind is STATUS:
        check_pack(body)
    assert repr(decode_delivered(kind, raw)) == repr((body, True))


# --- whatever is sent ---------------------------------------------------------------------------


@given(CHANGES)
def test_a_valid_task_is_a_task_and_is_read_as_sent(changes: list[tuple[Any, str, Any]]) -> None:
    check(NEW, sent(changed(TASK, changes)))


@given(CHANGES)
def test_a_valid_pack_is_a_pack_and_is_read_as_sent(changes: list[tuple[Any, str, Any]]) -> None:
    check(STATUS, sent(changed(PACK, changes)))


@given(DAMAGES)
def test_damaged_messages_are_not_valid_or_are_read_as_any(
    damages: list[tuple[int, int, bytes]],
) -> None:
    check(NEW, damaged(sent(TASK), damages))
    check(STATUS, damaged(sent(PACK), damages))


def test_a_key_that_comes_twice_counts_as_it_does_elsewhere() -> None:
    pairs = [("taskid", "s"), ("project", "p"), ("fetch", {"a": 1}), ("url", "u")]
    pairs += [("taskid", "t"), ("fetch", {"b": 2})]
    raw = b"\x86" + b"".join(sent(key) + sent(value) for key, value in pairs)
    body = {"taskid": "t", "project": "p", "url": "u", "fetch": {"b": 2}}
    assert decode_delivered(NEW, raw) == (body, True)


# --- what components send -----------------------------------------------------------------------


def test_what_components_send_is_valid() -> None:
    bare = {key: value for key, value in TASK.items() if key not in DOCUMENTS}
    assert is_valid(NEW, sent({**bare, "project": "q", "url": "http://é/"}))
    assert is_valid(NEW, sent(TASK))
    assert is_valid(STATUS, sent(PACK))
    assert is_valid(STATUS, sent({**bare, "track": PACK["track"]}))


@pytest.mark.parametrize(
    "task",
    [
        *({}, 7, [], [TASK], PACK, {**TASK, "taskid": 7}, {**TASK, "group": "g"}),
        *({**TASK, "url": "a\0"}, {**TASK, "project": "no name"}),
        *({**TASK, "fetch": {"a": 2**63}}, {**TASK, "schedule": {"age": "1"}}),
        *({**TASK, "schedule": None}, {**TASK, "fetch": {"a": b"b"}}),
        *({**TASK, "fetch": {"a": float("nan")}}, {**TASK, "status": 1}, "text", None),
    ],
    ids=repr,
)
def test_of_what_is_unusual_nothing_is_known(task: object) -> None:
    assert decode_delivered(NEW, sent(task))[1] is False


@pytest.mark.parametrize("pack", [{}, [], TASK, {**PACK, "status": 1}, [PACK]])
def test_a_pack_without_a_report_is_not_known_to_be_valid(pack: object) -> None:
    assert not is_valid(STATUS, sent(pack))


def test_no_message_is_valid_that_is_empty_or_followed_by_more() -> None:
    assert not is_valid(NEW, b"")
    assert not is_valid(NEW, sent(TASK) + b"\xc0")


def test_messages_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "TASKS", 2)
    decode_delivered(NEW, sent([TASK, TASK]))
    with pytest.raises(BadMessage, match="has 3 tasks, the limit is 2"):
        decode_delivered(NEW, sent([TASK] * 3))
    monkeypatch.setattr(caps, "MESSAGE", 100)
    with pytest.raises(BadMessage, match="bytes, the limit is 100"):
        decode_delivered(NEW, sent(TASK))
