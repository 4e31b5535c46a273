"""Charsets: which one a page is in, as the HTML standard finds out, and its text."""

import codecs
import json
import re
from collections.abc import Iterable

import chardet
import webencodings
from chardet.enums import EncodingEra
from tinyhtml5.inputstream import EncodingParser

_TEXT = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[bl]e)?|iso8859-\d+|iso2022_\w+|cp\d+|koi8[-_]\w|kz1048"
    r"|mac-\w+|big5(hkscs)?|gb2312|gbk|gb18030|hz|euc_\w+|shift_jis\w*|johab|tis-620|ptcp154"
    r"|hp-roman8"
)
"""Python's names of the codecs for text of the web.

Its others are no charset, or take time by the square of the length: idna, punycode, undefined.
"""

_BROADER = {"gb2312": "gb18030", "gbk": "gb18030"}
"""Codecs that pages name, and the one that reads what they are written in."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark is its beginning
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_IN_HEADER = re.compile(r"""(?<![\w"'-])charset\s*=\s*["']?\s*([^\s"';]+)""", re.IGNORECASE)
_IN_XML = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""")
_ISO_2022 = re.compile(rb"\x1b[$(]")
_FOREIGN = re.compile(rb"[\x80-\xff]")
_ASCII = bytes(range(128))

_HEAD = 1024
"""Bytes in which the standard looks for a declaration; browsers go on while they parse."""

_LONG_HEAD = 2**16
_ENOUGH = 2**20


def encoding_of(content: bytes, content_type: str) -> str:
    """Return Python's name of the encoding that a page is in; never raise an error."""
    return (
        next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
        or _of_header(content_type)
        or _declared(content[:_HEAD], content_type)
        or _unicode(content)
        or _declared(content[:_LONG_HEAD], content_type)
        or _guessed(content)
    )


def decoded(content: bytes, encoding: str) -> str:
    """Return the text of a page: by UTF-8 if Python has no such encoding."""
    try:
        codec = codecs.lookup(encoding).name
        text = content.decode(_BROADER.get(codec, codec), "replace")
    except (LookupError, ValueError):  # ValueError: no codec has such a name
        text = content.decode(errors="replace")
    return text.removeprefix("\ufeff")


def _first_codec(labels: Iterable[str]) -> str | None:
    return next(filter(None, map(_codec, labels)), None)


def _codec(label: str) -> str | None:
    """Return Python's name of the codec for a label, if it is one of a charset."""
    try:
        known = webencodings.lookup(label)
        is_usual = known is not None and known.name != "replacement"  # which Python can read
        name = codecs.lookup(known.codec_info.name if is_usual else label).name
    except (LookupError, ValueError):
        return None
    return _BROADER.get(name, name) if _TEXT.fullmatch(name) else None


def _of_header(content_type: str) -> str | None:
    """Return the encoding that the last of the headers names, if they name any."""
    types = reversed(content_type.split(","))
    return _first_codec(label for each in types for label in _IN_HEADER.findall(each))


def _declared(head: bytes, content_type: str) -> str | None:
    """Return the encoding that a page says it is in; JSON says nothing, whatever it quotes."""
    if "json" in content_type:
        return None
    meta, xml = EncodingParser(head).get_encoding(), _IN_XML.match(head)
    labels = [meta.name] if meta else []
    if xml:
        labels.insert(0 if "xml" in content_type else 1, xml[1].decode())
    found = _first_codec(labels)
    return "utf-8" if found and found.startswith("utf-16") else found  # else this was no ASCII


def _unicode(content: bytes) -> str | None:
    """Return which Unicode a page is in, if it is: UTF-8 may have some characters broken."""
    if content.count(0, 0, 4) >= 2:
        return json.detect_encoding(content)
    if _ISO_2022.search(content):
        return None
    broken = content.decode(errors="replace").count("\ufffd") - content.count(b"\xef\xbf\xbd")
    return "utf-8" if 5 * broken <= len(content.translate(None, _ASCII)) else None


def _guessed(content: bytes) -> str:
    """Return the encoding that the page's foreign words are probably in."""
    words = _escaped(content) or _foreign_words(content)
    if len(words.translate(None, _ASCII)) < 8 and not re.search(rb"[\x80-\xff]{2}|\x1b", words):
        return "cp1252"  # some signs or accents tell no languages apart
    found = chardet.detect(words, encoding_era=EncodingEra.MODERN_WEB)["encoding"]
    return _codec(found or "") or "utf-8"


def _escaped(content: bytes) -> bytes:
    escape = _ISO_2022.search(content)
    return content[escape.start() :][:_ENOUGH] if escape else b""


def _foreign_words(content: bytes) -> bytes:
    """Return the words that are not ASCII: among others they would not be noticed."""
    first = _FOREIGN.search(content)
    start = max(0, first.start() - 100) if first else 0
    pieces = re.split(rb"[<>\s]+", content[start : start + _ENOUGH])
    return b" ".join(each for each in pieces if not each.isascii())
