"""Names of parked messages in the message queue. Pure."""

import re
from collections.abc import Iterable

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.names import is_project_name
from pyspider_zk.queues.api import Parked, published
from pyspider_zk.queues.names import QueueKind

_TAG = re.compile(r"\d{1,20}(-\d{1,20})?", re.ASCII)
"""Tag of a message: in Redis the id of an entry, in memory a number."""


def name_of(parked: Parked) -> str:
    """Return the name of a parked message within its slot."""
    return f"{parked.tag} {parked.kind.value} {parked.project} {parked.taskid}"


def parked_of(slot: int, name: bytes) -> Parked:
    """Parse a name.

    Raises:
        BadMessage: it is no such name.
    """
    try:
        tag, kind, project, taskid = name.decode().split(" ", 3)
        if _TAG.fullmatch(tag) and is_project_name(project):
            return Parked(QueueKind(kind), slot, tag, project, taskid)
    except ValueError:
        pass
    raise BadMessage(f"nothing that is parked is called {name!r:.80}")


def in_order(parked: Iterable[Parked]) -> list[Parked]:
    """Return parked messages in order of publication, new tasks before packs."""
    return sorted(parked, key=_place)


def _place(parked: Parked) -> tuple[int, bool, int]:
    _, _, number = parked.tag.partition("-")
    return published(parked.tag), parked.kind is QueueKind.STATUS, int(number or 0)
