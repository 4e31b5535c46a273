"""Charsets: the codecs that a page may name."""

import codecs
import re
from collections.abc import Iterable

_TEXT = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[bl]e)?|iso8859-\d+|iso2022_\w+|cp\d+|koi8[-_]\w|kz1048"
    r"|mac-\w+|big5(hkscs)?|gb2312|gbk|gb18030|hz|euc_\w+|shift_jis\w*|johab|tis-620|ptcp154"
    r"|hp-roman8"
)
"""Python's names of the codecs for text of the web.

Its others are no charset, or take time by the square of the length: idna, punycode, undefined.
"""


def first_charset(names: Iterable[str]) -> str | None:
    """Return the first that names a charset."""
    return next(filter(_is_charset, names), None)


def _is_charset(name: str) -> bool:
    try:
        return _TEXT.fullmatch(codecs.lookup(name).name) is not None
    except (LookupError, ValueError):  # ValueError: no codec has such a name
        return False
