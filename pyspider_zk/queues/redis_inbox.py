"""The inbox in Redis: pyspider's lists, moved to the slot queues message by message.

Any number of members forward at once, so a message is popped by its value: the script that
moves it first compares the head of the list with the bytes that the mover read. The second mover
finds another head and does nothing. Equal bytes have equal targets, so it does not matter which of
two equal messages is moved.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspider_zk.queues import caps
from pyspider_zk.queues.names import (
    DEAD_LETTERS,
    SLOT_WAKE_UPS,
    QueueKind,
    ready_key,
    slot_queue,
)
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script
from pyspider_zk.queues.redis_wake_ups import LATEST
from pyspider_zk.queues.routing import RoutedMessage, route

BATCH = 100  # messages per round trip

log = logging.getLogger(__name__)

_LISTS = {kind.value: "list" for kind in QueueKind}
"""The keys that stock components fill, and their types."""

_LOOK, _MOVE = script("look_into_inbox"), script("forward")


@dataclass(frozen=True)
class Forwarding:
    """One message of the inbox and where it goes."""

    kind: QueueKind
    raw: bytes
    route: RoutedMessage


class RedisInbox:
    """`Inbox` in Redis 6.2 or later.

    Args:
        slots: how many slots the cluster has.
        limit: the most messages of one slot queue; 0: no limit.
    """

    def __init__(self, keys: TypedKeys, slots: int, limit: int = 0) -> None:
        self._keys = keys
        self._slots = slots
        self._limit = limit

    def forward(self, limit: int) -> int:
        """See `Inbox.forward`; one command if the inbox is empty, else three round trips."""
        return self.perform(self.plan(limit))

    def plan(self, limit: int) -> list[Forwarding]:
        """Return the moves of the first `limit` messages of each kind.

        Changes nothing, except that a first message that is too large becomes a dead letter.
        """
        if limit < 1 or not self._keys.run(_LISTS, lambda it: it.exists(*_LISTS)):
            return []

        def look(pipe: Any) -> None:
            for kind in QueueKind:
                about = [limit, caps.ROUND, caps.MESSAGE, caps.KEPT, caps.LETTERS, kind.value]
                pipe.eval(_LOOK, 2, kind.value, DEAD_LETTERS, *about)

        lists = self._keys.pipelined({DEAD_LETTERS: "stream", **_LISTS}, look)
        return [
            Forwarding(kind, raw, route(kind, raw, self._slots))
            for kind, raws in zip(QueueKind, lists, strict=True)
            for raw in raws
        ]

    def perform(self, moves: Sequence[Forwarding]) -> int:
        """Carry out the moves whose message is still the head of its list; return how many.

        Works in batches and stops after one in which something did not move, because of another
        mover or a full slot queue.
        """
        total = 0
        for start in range(0, len(moves), BATCH):
            batch = moves[start : start + BATCH]
            done = self._perform(batch)
            total += done
            if done < len(batch):
                break
        return total

    def lengths(self) -> Mapping[QueueKind, int]:
        """See `Inbox.lengths`."""
        lengths = self._keys.pipelined(_LISTS, lambda pipe: [pipe.llen(each) for each in _LISTS])
        return dict(zip(QueueKind, lengths, strict=True))

    def _perform(self, batch: Sequence[Forwarding]) -> int:
        keys = [_keys(move) for move in batch]

        def carry_out(pipe: Any) -> None:
            for move, its in zip(batch, keys, strict=True):
                about = [move.raw, move.kind.value, self._limit, caps.LETTERS, LATEST]
                pipe.eval(_MOVE, len(its), *its, *about, *move.route.arguments)

        types = {key: type_ for its in keys for key, type_ in its.items()}
        done = self._keys.pipelined(types, carry_out)
        for move, moved in zip(batch, done, strict=True):
            for reason, body in move.route.rejected if moved else ():
                log.warning("rejected %d bytes from %s: %s", len(body), move.kind.value, reason)
        return sum(done)


def _keys(move: Forwarding) -> dict[str, str]:
    """Return the keys of a move, and the type that each must have."""
    kind = move.kind
    types = {kind.value: "list", ready_key(kind): "set", DEAD_LETTERS: "stream"}
    streams = {slot_queue(kind, slot): "stream" for slot in move.route.parts}
    return {**types, SLOT_WAKE_UPS: "stream", **streams}
