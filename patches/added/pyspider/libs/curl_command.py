"""curl commands, as browsers copy them: the arguments of crawl() that they mean."""

import base64
import getopt
import re
import shlex
from typing import Any
from urllib.parse import quote

_QUOTED = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$'(?P<escaped>(?:\\.|[^'\\])*)'""", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{1,4}|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = dict(zip("abefnrtv", "\a\b\x1b\f\n\r\t\v", strict=True))

_LONG_OF = {
    "A": "user-agent",
    "F": "form",
    "G": "get",
    "H": "header",
    "I": "head",
    "L": "location",
    "S": "show-error",
    "X": "request",
    "b": "cookie",
    "d": "data",
    "e": "referer",
    "f": "fail",
    "g": "globoff",
    "i": "include",
    "k": "insecure",
    "m": "max-time",
    "s": "silent",
    "u": "user",
    "v": "verbose",
    "x": "proxy",
}
_DATA = ("data", "data-ascii", "data-binary", "data-raw", "data-urlencode")
_VALUED = {
    *("user-agent", "form", "header", "request", "cookie", "referer", "max-time", "user", "proxy"),
    *("url", "connect-timeout", "max-redirs", "form-string", "json", *_DATA),
}
_FLAGS = {
    *("get", "head", "location", "insecure", "compressed", "http1.1", "http2", "path-as-is"),
    *("show-error", "fail", "globoff", "include", "silent", "verbose"),
}


def curl_to_arguments(command: str) -> dict[str, Any]:
    """Return the arguments of crawl() that a command means; its URLs as ``urls``.

    Options about what is shown, and about the version of HTTP, mean nothing here.

    Raises:
        TypeError: it has no URL, or an option that crawl() has nothing for.
    """
    try:
        words = shlex.split(_QUOTED.sub(_unescaped, command))[1:]
        given, urls = getopt.gnu_getopt(words, _SHORT, [*_FLAGS, *(f"{name}=" for name in _VALUED)])
    except (getopt.GetoptError, ValueError) as error:
        raise TypeError(f"curl: {error}") from None
    options = [(_name(option), value) for option, value in given]
    urls += [value for name, value in options if name == "url"]
    if not urls:
        raise TypeError("curl: no URL specified!")
    return {"urls": urls, **_sent(options), **_told(dict(options))}


_SHORT = "".join(f"{each}:" if name in _VALUED else each for each, name in _LONG_OF.items())


def _name(option: str) -> str:
    bare = option.lstrip("-")
    return _LONG_OF.get(bare, bare)


def _unescaped(match: re.Match[str]) -> str:
    """Return a quoted part as shlex reads it; of those it does not know ``$'...'``."""
    if match["escaped"] is None:
        return match[0]
    return shlex.quote(_ESCAPE.sub(lambda found: _letter(found[0][1:]), match["escaped"]))


def _letter(escape: str) -> str:
    if escape[0] in "ux" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _LETTERS.get(escape, escape)


def _sent(options: list[tuple[str, str]]) -> dict[str, Any]:
    """Return headers and body."""
    made: dict[str, Any] = {}
    headers = dict(_header(name, value) for name, value in options if name in _HEADERS)
    data = [_data(name, value) for name, value in options if name in (*_DATA, "json")]
    form = [_field(value) for name, value in options if name in ("form", "form-string")]
    if any(name == "json" for name, _ in options):
        headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    if form:
        made["files"] = form
    elif data:
        made["params" if ("get", "") in options else "data"] = "&".join(data)
    return made | ({"headers": headers} if headers else {})


_HEADERS = {
    "header": "",
    "user-agent": "User-Agent",
    "referer": "Referer",
    "cookie": "Cookie",
    "user": "Authorization",
}


def _header(option: str, value: str) -> tuple[str, str]:
    if option == "header":
        name, colon, text = value.partition(":")
        if not colon and not name.endswith(";"):
            raise TypeError(f"curl: {value!r:.60} is no header")
        return name.strip().rstrip(";"), text.strip()
    if option == "cookie" and "=" not in value:
        raise TypeError(f"curl: cookies of a file are not read: {value!r:.60}")
    if option == "user":
        value = f"Basic {base64.b64encode(value.encode()).decode()}"
    return _HEADERS[option], value


def _data(option: str, value: str) -> str:
    if option != "data-raw" and value.startswith("@"):
        raise TypeError(f"curl: data of a file are not read: {value!r:.60}")
    if option != "data-urlencode":
        return value
    name, equals, text = value.partition("=") if "=" in value else ("", "", value)
    return f"{name}{equals if name else ''}{quote(text, safe='')}"


def _field(value: str) -> tuple[str, tuple[None, str]]:
    name, _, text = value.partition("=")
    if text[:1] in ("@", "<"):
        raise TypeError(f"curl: files are not read: {value!r:.60}")
    return name, (None, text)  # type: ignore[return-value]


def _told(options: dict[str, str]) -> dict[str, Any]:
    """Return what is told of the request but its headers and body."""
    rules = {
        "request": ("method", str),
        "proxy": ("proxy", str),
        "max-time": ("timeout", float),
        "connect-timeout": ("connect_timeout", float),
        "max-redirs": ("max_redirects", int),
    }
    made = {"method": "HEAD"} if "head" in options else {}
    made |= {"use_gzip": True} if "compressed" in options else {}
    made |= {"validate_cert": False} if "insecure" in options else {}
    try:
        return made | {
            rules[name][0]: rules[name][1](options[name]) for name in rules if name in options
        }
    except ValueError as error:
        raise TypeError(f"curl: {error}") from None
