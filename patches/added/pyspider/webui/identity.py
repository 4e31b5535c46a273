"""Identity of a request: the one place where an Authorization header is read.

Added by pyspider-zk; pages, WebDAV and what guards them ask here. What is not exactly a login of
HTTP Basic is nobody's, and without a name and a password that were set nobody is logged in.
"""

import base64
import hmac
from typing import NamedTuple


class Identity(NamedTuple):
    """Who is logged in; a viewer may only look."""

    name: str
    is_viewer: bool = False


def credentials(environ):
    """Return name and password of HTTP Basic, None if the header is anything else."""
    scheme, _, text = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        given = base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None
    name, colon, password = given.partition(":")
    return (name, password) if colon else None


def identify(environ, config):
    """Return who sent a request, None for nobody.

    A web UI that knows more logins has a function for it in its config, under `identify`.
    """
    if config.get("identify"):
        return config["identify"](environ)
    given = credentials(environ)
    for role in ("webui", "viewer"):
        if given and matches(given, config, role):
            return Identity(given[0], is_viewer=role == "viewer")
    return None


def matches(given, config, role):
    """Tell whether name and password are those of the config for "webui" or "viewer"."""
    expected = [config.get(f"{role}_username"), config.get(f"{role}_password")]
    if not all(expected):
        return False
    # Both always, and in constant time: how long it takes tells nothing of a guess.
    same = [
        hmac.compare_digest(a.encode(), b.encode()) for a, b in zip(given, expected, strict=True)
    ]
    return all(same)
