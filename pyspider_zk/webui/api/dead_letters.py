"""Dead letters: messages that nobody could use."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.errors import BadRequest
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.queues.dead_letters import letter_dict
from pyspider_zk.webui.api.backend import backend, tell, user
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    MOST_NAMES,
    PageOfSchema,
    PageQuerySchema,
    Switch,
    about,
    mirrors,
    number_field,
    text_field,
)

blueprint = Part("dead letters", __name__, description="Messages that nobody could use")


@mirrors(
    DeadLetter,
    without=("kind", "slot", "body"),
    tag="its name among them",
    reason="what is wrong with it",
    time="when it was found, seconds since the epoch",
)
class DeadLetterSchema(Schema):
    """A message that nobody could use."""

    queue = text_field("where it was found")
    message = fields.Raw(required=True, allow_none=True, metadata=about("as JSON can hold it"))
    bytes = number_field("how long it is")
    cut = fields.Boolean(
        required=True,
        metadata=about("whether only the first bytes are shown; it is replayed whole"),
    )


class DeadLetterPageSchema(PageOfSchema):
    """Dead letters, the newest first."""

    items = fields.List(fields.Nested(DeadLetterSchema), required=True)
    newest = text_field("the tag of the newest of all", allow_none=True)


class LettersSchema(Schema):
    """Which dead letters."""

    tags = fields.List(fields.String(), validate=validate.Length(1, MOST_NAMES))
    all = Switch(load_default=False, metadata=about("all that there are now"))
    until = fields.String(
        validate=validate.Regexp(r"[0-9]{1,19}(-[0-9]{1,19})?\Z"),
        metadata=about("of all, those up to this tag: what is found meanwhile stays"),
    )


class SettledSchema(Schema):
    """What was done with dead letters."""

    count = number_field("how many of them there were")


@blueprint.route("/dead-letters")
@blueprint.query(PageQuerySchema)
@blueprint.tells(DeadLetterPageSchema)
def list_dead_letters(query: dict[str, Any]) -> dict[str, Any]:
    """List dead letters, the newest first."""
    queues, offset = backend().slot_queues, query["offset"]
    total, newest = queues.dead(), queues.dead_letters(1)
    found = queues.dead_letters(query["limit"], offset) if offset < total else []
    items = list(map(letter_dict, found))
    tag = newest[0].tag if newest else None
    return {"items": items, "newest": tag, "total": total, "offset": offset}


@blueprint.route("/dead-letters/replay", methods=["POST"])
@blueprint.arguments(LettersSchema)
@blueprint.does(SettledSchema, errors=(422,))
def replay_dead_letters(asked: dict[str, Any]) -> dict[str, Any]:
    """Put dead letters back into the queues they were found in, the oldest first."""
    return _settle(asked, backend().slot_queues.replay, "replayed")


@blueprint.route("/dead-letters/drop", methods=["POST"])
@blueprint.arguments(LettersSchema)
@blueprint.does(SettledSchema, errors=(422,))
def drop_dead_letters(asked: dict[str, Any]) -> dict[str, Any]:
    """Delete dead letters for good."""
    return _settle(asked, backend().slot_queues.discard, "dropped")


def _settle(
    asked: dict[str, Any], act: Callable[[Iterable[str]], int], word: str
) -> dict[str, Any]:
    if bool(asked.get("tags")) == asked["all"] or asked.keys() >= {"tags", "until"}:
        raise BadRequest("name the tags of the letters, or say all, if need be until which")
    queues = backend().slot_queues
    tags = asked.get("tags") or queues.dead_letter_tags(asked.get("until"))
    count = act(tags)
    letters = "1 dead letter was" if count == 1 else f"{count} dead letters were"
    data = {"count": count, "asked": len(tags)}
    tell(Event(EventKind.DEAD_LETTERS, f"{letters} {word}", time.time(), user(), data))
    return {"count": count}
