"""Routing of the messages of the inbox. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.codec import decode_message, encode
from pyspider_zk.queues.names import QueueKind


@dataclass(frozen=True)
class RoutedMessage:
    """Result of routing a message: one for each of its tasks, and what is none with the reason.

    Attributes:
        parts: by slot.
    """

    parts: Mapping[int, Sequence[bytes]]
    rejected: tuple[tuple[str, bytes], ...] = ()

    @property
    def arguments(self) -> list[Any]:
        """How scripts take it: the number of messages, the slots, then all in pairs.

        (number of its slot, message) for each, and (reason, message) for what is none.
        """
        placed = [(at, raw) for at, own in enumerate(self.parts.values(), 1) for raw in own]
        return [len(placed), *self.parts, *chain.from_iterable((*placed, *self.rejected))]


def route(kind: QueueKind, raw: bytes, slots: int) -> RoutedMessage:
    """Return where a message of the inbox goes; never raises."""
    try:
        body = decode_message(raw)
        if kind is QueueKind.NEWTASK and isinstance(body, list):
            return _split(body, slots)
        return RoutedMessage({_slot_of_task(body, slots): [raw]})
    except BadMessage as error:
        return RoutedMessage({}, ((brief(error), raw),))


def _split(tasks: list[Any], slots: int) -> RoutedMessage:
    parts: defaultdict[int, list[bytes]] = defaultdict(list)
    rejected: list[tuple[str, bytes]] = []
    for task in tasks:
        try:
            parts[_slot_of_task(task, slots)].append(encode(task))
        except BadMessage as error:
            rejected.append((brief(error), encode(task)))
    return RoutedMessage(parts, tuple(rejected))


def _slot_of_task(task: object, slots: int) -> int:
    if not isinstance(task, dict):
        raise BadMessage(f"is no task but a {type(task).__name__}")
    return slot_of(check_project_name(task.get("project")), slots)
