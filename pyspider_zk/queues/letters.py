"""Dead letters in words."""

import json
from typing import Any

from pyspider_zk.core.names import slot_queue
from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.queues.codec import decode

_DEEPEST = 100  # levels of a message


def letter_dict(letter: DeadLetter) -> dict[str, Any]:
    """Return what is told of a dead letter, as plain values."""
    return {
        "tag": letter.tag,
        "queue": where(letter),
        "time": letter.time,
        "reason": letter.reason,
        "message": readable(letter.body),
    }


def where(letter: DeadLetter) -> str:
    """Return the queue that it was found in."""
    return letter.kind.value if letter.slot is None else slot_queue(letter.kind, letter.slot)


def readable(body: bytes) -> Any:
    """Return a message as JSON can hold it; its text, if it cannot; its bytes, if they are none.

    Too deep a message stays bytes as well: whoever writes or reads JSON gives up on it.
    """
    try:
        message = decode(body)
    except BadMessage:
        return repr(body)
    if _is_deeper(message, _DEEPEST):
        return repr(body)
    try:
        return json.loads(json.dumps(message, default=repr, allow_nan=False))
    except (TypeError, ValueError):
        return repr(message)


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    within = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in within)
