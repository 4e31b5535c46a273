"""Markup of crawled pages: parsed as lxml does, unless that would take minutes or gigabytes."""

from typing import Any

import lxml.etree
import lxml.html

MOST_NODES = 1_000_000
"""Elements, attributes and comments of a page: each takes up to 300 bytes, its text included."""

MOST_ATTRIBUTES = 1000
"""Of one element: libxml2 takes time by their square, 15 s for 40,000; no signal interrupts it."""

_HARMLESS = 16 * 2**10
"""Bytes of a page that can have no more than some thousand of anything."""


class BadMarkup(ValueError):
    """Markup that is not parsed."""


class _Census:
    """Counter of what libxml2's tokenizer finds, which is fast whatever it is."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._nodes = 0

    def start(self, _: str, attributes: Any) -> None:
        if len(attributes) > MOST_ATTRIBUTES:
            raise BadMarkup(
                f"{self._url} is not parsed: more than {MOST_ATTRIBUTES} attributes of one element"
            )
        self._add(1 + len(attributes))

    def comment(self, _: str) -> None:
        self._add(1)

    def pi(self, *_: str) -> None:
        self._add(1)

    def close(self) -> None:
        """End, as lxml demands it."""

    def _add(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise BadMarkup(
                f"{self._url} is not parsed: more than {MOST_NODES} elements, attributes and"
                " comments"
            )


def parse(text: str, url: str) -> Any:
    """Return the tree of a page; a page of nothing has an empty one.

    Raises:
        BadMarkup: it would take too long, or too much memory.
    """
    content = text.encode(errors="replace")  # as bytes, so that no XML declaration is obeyed
    if len(content) > _HARMLESS:
        census = lxml.etree.HTMLParser(encoding="utf-8", target=_Census(url))
        lxml.etree.fromstring(content, census)
    try:
        return lxml.html.fromstring(content, parser=lxml.html.HTMLParser(encoding="utf-8"))
    except lxml.etree.ParserError:  # of blanks, comments and what else makes no element
        return lxml.html.fromstring(b"<html><head></head><body></body></html>")
