"""What one input is, what came of it, and the files that inputs are kept in."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol


@dataclass(frozen=True)
class Input:
    """One thing that is put into a surface.

    Attributes:
        surface: which one.
        kind: how it was made, in a word or two.
        parts: all that is needed to send it again, to another cluster too: plain values and bytes.
    """

    surface: str
    kind: str
    parts: Mapping[str, Any]


@dataclass(frozen=True)
class Answered:
    """What came of an input.

    Attributes:
        kind: its class, such as a status.
        fault: what is wrong with it; empty if nothing is.
    """

    kind: str
    fault: str = ""


@dataclass
class Surface:
    """A surface of one cluster that takes input.

    Attributes:
        name: of the surface.
        draw: makes an input; all chance comes from its argument.
        send: puts an input in; threads: one at a time.
        rest: mends what was put in and others need, at the end.
    """

    name: str
    draw: "Draw"
    send: "Send"
    rest: "Rest" = field(default=lambda: None)


class Draw(Protocol):
    """Makes an input."""

    def __call__(self, chance: Random) -> Input: ...


class Send(Protocol):
    """Puts an input in."""

    def __call__(self, what: Input) -> Answered: ...


class Rest(Protocol):
    """Mends what was put in."""

    def __call__(self) -> None: ...


def save(path: Path, why: str, inputs: Sequence[Input]) -> None:
    """Write inputs, and why they are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"why": why, "inputs": [_told(each) for each in inputs]}
    path.write_text(json.dumps(told, indent=1), encoding="utf-8")


def load(path: Path) -> list[Input]:
    """Return the inputs of a file."""
    told = json.loads(path.read_text(encoding="utf-8"))
    return [
        Input(each["surface"], each["kind"], _plain(each["parts"], _from_base64))
        for each in told["inputs"]
    ]


def _told(each: Input) -> dict[str, Any]:
    parts = {name: _to_json(value) for name, value in each.parts.items()}
    return {"surface": each.surface, "kind": each.kind, "parts": parts}


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value


def _from_base64(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    return value


def _plain(parts: Mapping[str, Any], read: Any) -> dict[str, Any]:
    return {name: read(value) for name, value in parts.items()}
