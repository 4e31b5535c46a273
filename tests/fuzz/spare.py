"""Which requests would be carried out on projects that are not fuzzed. Pure.

Who may operate the cluster may stop every project. Such a request is no bad input, and would make
the judge see a loss where there is none. So it is not sent.
"""

import json
import re
import xmlrpc.client
from typing import Any
from urllib.parse import unquote

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
