"""What one input is, what came of it, the files that inputs are kept in, and what is not sent.

Who may operate the cluster may stop every project. Such a request is no bad input, and would make
the judge see a loss where there is none. So it is not sent.
"""

import base64
import json
import re
import xmlrpc.client
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote


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
    draw: Callable[[Random], Input]
    send: Callable[[Input], Answered]
    rest: Callable[[], None] = lambda: None


def save(path: Path, why: str, inputs: Sequence[Input]) -> None:
    """Write inputs, and why they are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"why": why, "inputs": [_told(each) for each in inputs]}
    path.write_text(json.dumps(told, indent=1), encoding="utf-8")


def load(path: Path) -> list[Input]:
    told = json.loads(path.read_text(encoding="utf-8"))
    return [
        Input(each["surface"], each["kind"], _each_part(each["parts"], _from_json))
        for each in told["inputs"]
    ]


def _told(each: Input) -> dict[str, Any]:
    parts = _each_part(each.parts, _to_json)
    return {"surface": each.surface, "kind": each.kind, "parts": parts}


def _each_part(parts: Mapping[str, Any], turn: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: turn(value) for name, value in parts.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    return value


FUZZED = "fuzzed_"
"""What the names of the projects begin with that input is about; the others are never named."""

_ENDS_A_MEMBER = ("local_drain",)


def call_spares(body: bytes) -> bool:
    """Return whether an XML-RPC call leaves the other projects, and the members, alone."""
    try:
        given, method = xmlrpc.client.loads(body)
    except Exception:
        return True  # nobody can read it
    if method in _ENDS_A_MEMBER and not given:
        return False
    return method != "submit_operation" or len(given) < 2 or _bounded(given[1])


def request_spares(method: str, path: str, body: bytes) -> bool:
    """Return whether a request to the web UI leaves the other projects alone."""
    method = method.upper()
    place = unquote(path.partition("?")[0], errors="replace")
    parts = [part for part in place.split("/") if part not in ("", ".")]
    if parts[:1] == ["dav"] and method not in ("GET", "HEAD", "OPTIONS", "PROPFIND", "LOCK"):
        return any(FUZZED in part for part in parts) and ".." not in parts
    if method == "POST" and parts[-1:] == ["drain"]:
        return len(parts) < 2 or not re.fullmatch(r"0*\d", parts[-2])
    if "batches" not in parts or method != "POST":
        return True
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return True
    if not isinstance(asked, dict):
        return True
    given = asked.get("filter")
    chosen = given if isinstance(given, dict) else {}
    return _bounded({**chosen, "names": asked.get("names")})


def raw_spares(request: bytes) -> bool:
    """Return the same for the bytes of a request."""
    head, _, body = request.partition(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].decode("utf-8", "replace").split()
    if len(words) < 2:
        return True
    return call_spares(body) and request_spares(words[0].upper(), words[1], body)


def _bounded(selection: Any) -> bool:
    """Return whether names or a pattern bound a selection; all that is given must hold."""
    if not isinstance(selection, dict):
        return True  # it is refused
    pattern = selection.get("pattern")
    return bool(selection.get("names")) or str(pattern).startswith(FUZZED)
