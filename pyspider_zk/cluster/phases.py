"""Phases of a slot between two owners, and what moves it on.

``TRANSITIONS`` is complete: the leader's decisions follow this table, and the drawing in
``docs/internals`` is generated from it. A transition that it does not contain cannot happen.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    """Phase of a slot between two owners."""

    VACANT = "vacant"
    OWNED = "owned"
    RELEASING = "releasing"


class Trigger(StrEnum):
    """The leader's conclusion about a slot; the values are the labels of the drawing."""

    PLACED = "a member is there: grant"
    ASKED = "another should have it: ask to release"
    ACKNOWLEDGED = "the owner has released it: grant"
    DIED = "the owner's lease is too old: grant"
    LEFT = "the owner's lease is gone: grant"


TRANSITIONS: Mapping[tuple[Phase, Trigger], Phase] = MappingProxyType(
    {
        (Phase.VACANT, Trigger.PLACED): Phase.OWNED,
        (Phase.OWNED, Trigger.ASKED): Phase.RELEASING,
        (Phase.OWNED, Trigger.DIED): Phase.OWNED,
        (Phase.OWNED, Trigger.LEFT): Phase.OWNED,
        (Phase.RELEASING, Trigger.ASKED): Phase.RELEASING,
        (Phase.RELEASING, Trigger.ACKNOWLEDGED): Phase.OWNED,
        (Phase.RELEASING, Trigger.DIED): Phase.OWNED,
        (Phase.RELEASING, Trigger.LEFT): Phase.OWNED,
    }
)
"""Phase and event to the next phase. Every way into OWNED is a grant, with the next epoch."""
