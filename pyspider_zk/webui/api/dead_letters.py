"""Dead letters: messages that nobody could use."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.errors import BadRequest, Conflict
from pyspider_zk.queues.dead_letters import letter_dict
from pyspider_zk.webui.api.backend import backend, tell, user
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    DeadLetterPageSchema,
    LettersSchema,
    PageQuerySchema,
    SettledSchema,
)

blueprint = Part("dead letters", __name__, description="Messages that nobody could use")


@blueprint.route("/dead-letters")
@blueprint.query(PageQuerySchema)
@blueprint.tells(DeadLetterPageSchema)
def list_dead_letters(query: dict[str, Any]) -> dict[str, Any]:
    """List dead letters, the newest first."""
    queues, offset = backend().slot_queues, query["offset"]
    total = queues.dead()
    found = queues.dead_letters(min(total, offset + query["limit"]))[offset:]
    return {"items": list(map(letter_dict, found)), "total": total, "offset": offset}


@blueprint.route("/dead-letters/replay", methods=["POST"])
@blueprint.arguments(LettersSchema)
@blueprint.does(SettledSchema, errors=(409, 422))
def replay_dead_letters(asked: dict[str, Any]) -> dict[str, Any]:
    """Put dead letters back into the queues they were found in, the oldest first."""
    return _settle(asked, backend().slot_queues.replay, "replayed")


@blueprint.route("/dead-letters/drop", methods=["POST"])
@blueprint.arguments(LettersSchema)
@blueprint.does(SettledSchema, errors=(409, 422))
def drop_dead_letters(asked: dict[str, Any]) -> dict[str, Any]:
    """Delete dead letters for good."""
    return _settle(asked, backend().slot_queues.discard, "dropped")


def _settle(
    asked: dict[str, Any], act: Callable[[Iterable[str]], int], word: str
) -> dict[str, Any]:
    if bool(asked.get("tags")) == asked["all"]:
        raise BadRequest("name the tags of the letters, or say all")
    queues = backend().slot_queues
    tags = asked.get("tags") or [each.tag for each in reversed(queues.dead_letters(queues.dead()))]
    if asked.get("count", len(tags)) != len(tags):
        raise Conflict(f"there are {len(tags)} by now, not {asked['count']}: look again")
    count = act(tags)
    letters = "1 dead letter was" if count == 1 else f"{count} dead letters were"
    data = {"count": count, "asked": len(tags)}
    tell(Event(EventKind.DEAD_LETTERS, f"{letters} {word}", time.time(), user(), data))
    return {"count": count}
