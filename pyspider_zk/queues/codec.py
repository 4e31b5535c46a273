"""Wire format: msgpack as pyspider's u-msgpack writes and reads it.

Text stays text, bytes stay bytes, times need a time zone. Types that u-msgpack refuses are
refused here, too, so a stock component can read all messages: integers beyond 64 bits, text
with surrogates, sets, objects.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgpack
import msgspec

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import DEEPEST, is_deeper, is_valid

LEVELS = DEEPEST + 3  # a part of a task, within a list of tasks

CODING_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
"""Errors of a value without a wire form, and of bytes that are none: a list as a key, say."""

_TIMESTAMP_AS_DATETIME = 3

_decode_valid = msgspec.msgpack.Decoder().decode  # some times as fast as msgpack's
_encode_plain = msgspec.msgpack.Encoder().encode  # the same


def encode(body: object) -> bytes:
    """Return the wire form of a value.

    Raises:
        BadMessage: naming the project and task that cannot be encoded.
    """
    try:
        packed = pack(body)
    except CODING_ERRORS as error:
        raise BadMessage(f"{_describe(body)} cannot be encoded: {error}") from error
    if len(packed) > caps.MESSAGE:
        raise BadMessage(f"{_describe(body)} {_too_large(len(packed))}")
    return packed


def size_of(body: object) -> int:
    """Return how many bytes the wire form of a value has, before it is needed; 0: it has none."""
    with suppress(*CODING_ERRORS):
        return len(_encode_plain(body))
    with suppress(BadMessage):  # of a type that only `encode` takes, such as lxml's texts
        return len(encode(body))
    return 0


def _too_large(size: int) -> str:
    return f"has {size} bytes, the limit is {caps.MESSAGE}"


def decode_message(raw: bytes) -> Any:
    """Return the published message.

    Raises:
        BadMessage: it is not msgpack, too large, too deep, or too many tasks at once.
    """
    if len(raw) > caps.MESSAGE:
        raise BadMessage(_too_large(len(raw)))
    body = decode(raw)
    if isinstance(body, list) and len(body) > caps.TASKS:
        raise BadMessage(f"has {len(body)} tasks, the limit is {caps.TASKS}")
    if is_deeper(body, LEVELS):
        raise BadMessage(f"is nested deeper than {LEVELS} levels")
    return body


def decode_delivered(kind: QueueKind, raw: bytes) -> tuple[Any, bool]:
    """Return what was published, and whether it surely passes its checks.

    Raises:
        BadMessage: as `decode_message`.
    """
    if len(raw) <= caps.MESSAGE and is_valid(kind, raw):
        return _decode_valid(raw), True
    return decode_message(raw), False


def decode(raw: bytes) -> Any:
    """Return the value of a wire form.

    Raises:
        BadMessage: these bytes are no msgpack.
    """
    try:
        return msgpack.unpackb(
            raw, raw=False, strict_map_key=False, timestamp=_TIMESTAMP_AS_DATETIME
        )
    except CODING_ERRORS as error:
        raise BadMessage(f"is no msgpack: {type(error).__name__} {error}".rstrip()) from error


def encode_record(slot: int, record: Mapping[str, Any]) -> bytes:
    """Return the wire form of a record.

    Raises:
        BadMessage: naming the slot.
    """
    try:
        return pack(dict(record))
    except CODING_ERRORS as error:
        raise BadMessage(f"record of slot {slot}: {error}") from error


def decode_record(slot: int, raw: bytes) -> dict[str, Any]:
    """Return the record of a wire form.

    Raises:
        BadMessage: naming the slot.
    """
    try:
        record = decode(raw)
    except BadMessage as error:
        raise BadMessage(f"record of slot {slot} {error}") from error
    if not isinstance(record, dict):
        raise BadMessage(f"record of slot {slot} is no mapping but a {type(record).__name__}")
    return record


def pack(body: object) -> bytes:
    """Return the wire form of a value, of whatever size; raises msgpack's errors."""
    packed: bytes = msgpack.Packer(datetime=True).pack(body)  # as packb does, a sixth sooner
    return packed


def _describe(task: object) -> str:
    if isinstance(task, dict):
        return f"task {task.get('taskid')!r:.80} of project {task.get('project')!r:.80}"
    return f"a value of type {type(task).__name__}"
