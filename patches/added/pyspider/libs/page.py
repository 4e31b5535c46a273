"""Page that was fetched: its text, JSON and tree, which always agree on its encoding."""

import json
from functools import cached_property, lru_cache
from typing import Any

from pyquery import PyQuery
from pyquery.cssselectpatch import JQueryTranslator
from pyspider.libs import charsets, links, markup


class _Translator(JQueryTranslator):
    """PyQuery's translator of selectors; scripts have few, so it remembers the last ones."""

    css_to_xpath = lru_cache(1000)(JQueryTranslator.css_to_xpath)


_TRANSLATOR = _Translator(xhtml=False)


class Page:
    """What a script sees of a page's content.

    Attributes:
        content: as it was fetched; text if JavaScript or a data: URL made it.
    """

    content: Any
    headers: Any
    url: Any
    _given_encoding: str | None = None

    @property
    def encoding(self) -> str:
        """Encoding of the content, as Python calls it: the page's own, unless a script sets it.

        None, when it is set, is the page's own again. Text, JSON and trees are made anew.
        """
        return self._given_encoding or self._own_encoding

    @encoding.setter
    def encoding(self, value: str | None) -> None:
        self._given_encoding = value
        for name in ("text", "json", "etree", "doc"):
            self.__dict__.pop(name, None)

    @cached_property
    def _own_encoding(self) -> str:
        if isinstance(self.content, str):
            return "unicode"
        content_type = str(self.headers.get("content-type") or "").lower()
        return charsets.encoding_of(self.content or b"", content_type)

    @cached_property
    def text(self) -> str:
        """Content as text, without a byte order mark."""
        if isinstance(self.content, str):
            return self.content.removeprefix("\ufeff")
        return charsets.decoded(self.content or b"", self.encoding)

    @cached_property
    def json(self) -> Any:
        """Content as JSON says it; None if it is none."""
        try:
            return json.loads(self.text)
        except (RecursionError, ValueError):
            return None

    @cached_property
    def doc(self) -> PyQuery:
        """Tree of the page in a PyQuery, its links made absolute."""
        links.make_absolute(self.etree, self.url or "")
        return PyQuery(self.etree, css_translator=_TRANSLATOR)

    @cached_property
    def etree(self) -> Any:
        """Tree of the page in lxml, its links as they are written until ``doc`` is read."""
        return markup.parse(self.text, self.url)
