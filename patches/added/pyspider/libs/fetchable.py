"""URLs that can be fetched; any other raises BadURL, which names it and says why."""

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from pyspider.libs import dataurl

_QUOTED = 200
"""Characters of a URL, and of what is wrong with it, that an error quotes."""

_SENDABLE = re.compile(r"[\x20-\x7e]*")

_ODD = re.compile(r"[^\x00-\x7f]|[\[\]]")
_SHORT = 1000  # digits and fewer are a number


class BadURL(ValueError):
    """A URL that cannot be fetched."""


class BadProxy(BadURL):
    """A proxy that cannot be used. Its address may hold a password, so no error quotes it."""


def bad_url(url: str, reason: object) -> BadURL:
    """Return the error for a URL; what it quotes cannot break a line of a log."""
    return BadURL(f"{url[:_QUOTED]!r} cannot be fetched: {str(reason)[:_QUOTED]}")


def loggable(url: str) -> str:
    """Return a URL with what UTF-8 cannot encode escaped."""
    return url.encode(errors="backslashreplace").decode()


def check_url(url: str) -> None:
    """Make sure that host and port of a URL can be found.

    Raises:
        BadURL: they cannot.
    """
    try:
        _split(url)
    except ValueError as error:
        raise bad_url(url, error) from None


def check_sendable(url: str) -> None:
    """Make sure that a URL can be part of an HTTP request.

    Raises:
        BadURL: it cannot.
    """
    check_url(url)
    unsendable = _SENDABLE.sub("", url, count=1)
    if unsendable:
        raise bad_url(url, f"{unsendable[0]!a} must be percent-encoded")


def join_url(base: str, location: str) -> str:
    """Return the target of a redirect.

    Raises:
        BadURL: it is none.
    """
    try:
        return urljoin(base, location)
    except ValueError as error:
        raise bad_url(location, error) from None


def decode_data_url(url: str) -> str | bytes:
    """Return the content of a data: URL.

    Raises:
        BadURL: it is malformed.
    """
    try:
        return dataurl.decode(url)  # type: ignore[no-any-return]
    except (AttributeError, LookupError, ValueError) as error:
        raise bad_url(url, error) from None


def split_proxy(proxy: str) -> SplitResult:
    """Return the parts of a proxy's address.

    Raises:
        BadProxy: it is malformed.
    """
    if not _SENDABLE.fullmatch(proxy):
        raise BadProxy("the proxy cannot be used: some characters must be percent-encoded")
    try:
        return _split(proxy)
    except ValueError:
        raise BadProxy("the proxy cannot be used: its host or port is malformed") from None


def readable_rules(lines: Iterable[str]) -> list[str]:
    """Return the lines of a robots.txt, without those that Python's parser cannot read."""
    return [line for line in lines if _is_readable(line)]


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    _ = parts.port  # read, it raises ValueError if it is no port
    return parts


def _is_readable(line: str) -> bool:
    if len(line) < _SHORT and not _ODD.search(line):
        return True  # the parser fails at hosts and numbers only; to try each line takes time
    try:
        RobotFileParser().parse(["User-agent: *", line])
    except ValueError:
        return False
    return True
