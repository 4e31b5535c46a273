"""Dead letters, formatted for people."""

import json
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.queues.codec import decode
from pyspider_zk.queues.tasks import is_deeper

_DEEPEST = 100  # levels of a message


def letter_dict(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as plain values; of a long one only the first bytes."""
    cut = len(letter.body) > caps.SHOWN
    return {
        "tag": letter.tag,
        "queue": letter.queue,
        "time": letter.time,
        "reason": letter.reason,
        "message": repr(letter.body[: caps.SHOWN]) if cut else readable(letter.body),
        "bytes": len(letter.body),
        "cut": cut,
    }


def readable(body: bytes) -> Any:
    """Return a message as JSON values; as text, if that is impossible; else as bytes.

    A message that is nested too deeply also stays bytes, because JSON libraries fail at it.
    """
    try:
        message = decode(body)
    except BadMessage:
        return repr(body)
    if is_deeper(message, _DEEPEST):
        return repr(body)
    try:
        return json.loads(json.dumps(message, default=repr, allow_nan=False))
    except (TypeError, ValueError):
        return repr(message)
