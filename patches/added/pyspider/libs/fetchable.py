"""What can be fetched: URLs, and proxies on the way; any other raises an error that says why."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.robotparser import RobotFileParser

import ada_url
from pyspider.libs import dataurl
from requests.models import RequestEncodingMixin

_QUOTED = 200
"""Characters of a URL, and of what is wrong with it, that an error quotes."""

_SENDABLE = re.compile(r"[\x20-\x7e]*")
_SAFE = "".join(map(chr, range(0x21, 0x7F)))
_ASCII = "".join(map(chr, range(0x80)))
_AROUND = _ASCII[:0x21]  # as in the URL standard: controls and the blank
_WITHIN = str.maketrans("", "", "\t\r\n")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")
_WEB = re.compile(r"https?:", re.IGNORECASE)

_PLAIN = re.compile(r"(https?://[^/?#\s]+)/[!-\"$->@-~]*(\?[!-\"$-~]+)?(#[!-~]+)?", re.ASCII)
_ORIGINS = 1000  # that a process remembers; the links of a page are mostly of one site

_ODD = re.compile(r"[^\x00-\x7f]|[\[\]]")
_HOST_OR_NUMBER = re.compile(r"/[\t\r\n]*/|-delay|-rate", re.IGNORECASE)
_SHORT = 1000  # digits and fewer are a number
_MOST_TRIES = 1000  # lines of a robots.txt that Python's parser may fail at

_PROXIES = ("http", "socks4", "socks4a", "socks5", "socks5h")


class Unfetchable(ValueError):
    """A task that nothing can be fetched for, through no fault of the fetcher's.

    Attributes:
        code: the status that stands for a page's.
    """

    code = 599


class BadURL(Unfetchable):
    """A URL that cannot be fetched."""


class BadProxy(Unfetchable):
    """A proxy that cannot be used. Its address may hold a password, so no error quotes it."""


class Proxy(NamedTuple):
    """A proxy, and the login there."""

    scheme: str
    host: str
    port: int
    username: str
    password: str


def told(error: Exception) -> str:
    """Return what the result of a failed fetch says."""
    return f"HTTP {error.code}: {error}" if isinstance(error, Unfetchable) else str(error)


def bad_url(url: str, reason: object) -> BadURL:
    """Return the error for a URL; what it quotes cannot break a line of a log."""
    return BadURL(f"{url[:_QUOTED]!r} cannot be fetched: {str(reason)[:_QUOTED]}")


def loggable(url: str) -> str:
    """Return a URL with what UTF-8 cannot encode escaped."""
    return url.encode(errors="backslashreplace").decode()


def task_url(url: str, params: object = None) -> str:
    """Return a URL as tasks have it, which for one of a task is the same: ids are made of it.

    Blanks around it go, and line breaks within, as in browsers; what may not be in a request is
    percent-encoded, and a host with other letters is encoded for the DNS. All else stays as it is
    written, and so does the text of a data: URL.

    Args:
        params: more of the query: a mapping, pairs or text.

    Raises:
        BadURL: it cannot be sent.
    """
    plain = _PLAIN.fullmatch(url)
    if plain and params is None and _is_plain(plain[1]):
        return str(url)  # a plain one: those of lxml keep their page
    return _made_url(url, params)


@lru_cache(_ORIGINS)
def _is_plain(origin: str) -> bool:
    """Return whether a scheme and host stay as they are, so that an ASCII path does as well."""
    try:
        return _made_url(f"{origin}/", None) == f"{origin}/"
    except BadURL:
        return False


def _made_url(url: str, params: object) -> str:
    stripped = url.strip(_AROUND)
    try:
        if stripped.startswith("data:"):
            return quote(stripped, safe=_ASCII)
        parts = urlsplit(stripped.translate(_WITHIN))
        if not parts.netloc.isascii():
            parts = parts._replace(netloc=urlsplit(ada_url.URL(stripped).href).netloc)
        query = "&".join(filter(None, [parts.query, RequestEncodingMixin._encode_params(params)]))
        made = urlunsplit(parts._replace(path=parts.path or "/", query=query))
        if _WEB.match(made):
            ada_url.URL(made)
        return quote(made, safe=_SAFE)
    except (TypeError, ValueError) as error:
        raise bad_url(url, error) from None


def sent_url(url: str) -> str:
    """Return a URL as it is sent, in the form that browsers give it.

    Raises:
        BadURL: it cannot be sent.
    """
    full = url if _SCHEME.match(url) else f"http://{url}"  # which may be left out, as in browsers
    return _web_url(full, "")


def redirected_url(base: str, location: str) -> str:
    """Return where a redirect leads.

    Args:
        location: the header; each of its characters is a byte.

    Raises:
        BadURL: it leads to no page.
    """
    raw = location.encode("latin1")
    try:
        return _web_url(raw.decode(), base)
    except UnicodeDecodeError:  # of another encoding: the bytes are what the site means
        return _web_url(quote(raw, safe=_SAFE), base)


def _web_url(url: str, base: str) -> str:
    try:
        made = ada_url.join_url(base, url) if base else ada_url.URL(url).href
    except UnicodeEncodeError as error:
        raise bad_url(url, error) from None
    except ValueError:
        raise bad_url(url, "it is no URL") from None
    if not _WEB.match(made):
        raise bad_url(url, "only http: and https: are")
    return str(made)


def decode_data_url(url: str) -> str | bytes:
    """Return the content of a data: URL.

    Raises:
        BadURL: it is malformed.
    """
    try:
        return dataurl.decode(url)  # type: ignore[no-any-return]
    except (AttributeError, LookupError, ValueError) as error:
        raise bad_url(url, error) from None


def proxy_of(address: str) -> Proxy:
    """Return the parts of a proxy's address, such as host, host:8080 or socks5://user:word@host.

    Raises:
        BadProxy: it is malformed, or of a kind that is not supported.
    """
    if not _SENDABLE.fullmatch(address):
        raise BadProxy("the proxy cannot be used: some characters must be percent-encoded")
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = parts.port or 8080
    except ValueError:
        raise BadProxy("the proxy cannot be used: its host or port is malformed") from None
    if parts.scheme not in _PROXIES:
        known = ", ".join(f"{each}://" for each in _PROXIES)
        raise BadProxy(f"the proxy cannot be used: its address must begin with one of {known}")
    login = (unquote(parts.username or ""), unquote(parts.password or ""))
    return Proxy(parts.scheme, parts.hostname or "", port, *login)


def readable_rules(lines: Iterable[str]) -> list[str]:
    """Return the lines of a robots.txt, without those that Python's parser cannot read.

    It fails at hosts and numbers only. Odd lines are tried, which takes time: so many, and no more.
    """
    tries = iter(range(_MOST_TRIES))
    return [
        line
        for line in lines
        if not line  # between two entries
        or (
            ":" in line
            and (not _is_odd(line) or (next(tries, None) is not None and _is_readable(line)))
        )
    ]


def _is_odd(line: str) -> bool:
    """Return whether the parser, which decodes percent signs first, may fail at a line."""
    text = unquote(line)
    return len(line) >= _SHORT or bool(_ODD.search(text) and _HOST_OR_NUMBER.search(text))


def _is_readable(line: str) -> bool:
    try:
        RobotFileParser().parse(["User-agent: *", line])
    except ValueError:
        return False
    return True
