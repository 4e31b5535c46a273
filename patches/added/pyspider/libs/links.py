"""Links of a page, made absolute as browsers do."""

import re
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

_LINKS = {
    "a": "href",
    "area": "href",
    "form": "action",
    "frame": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "script": "src",
}
_BLANKS = "".join(map(chr, range(33)))
_NO_BREAKS = str.maketrans("", "", "\t\r\n")
_QUERY = r"(?:\?[\w.&=%~-]+)?"
_PLAIN = re.compile(rf"(/)?[\w~-][\w.~-]*(?:/[\w~-][\w.~-]*)*/?{_QUERY}", re.ASCII)
_WHOLE = re.compile(rf"https?://[\w.-]+(?::\d+)?/[\w./%~-]*{_QUERY}", re.ASCII)
_OPAQUE = re.compile(r"(?!https?:|ftp:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def make_absolute(root: Any, url: str) -> None:
    """Make the links absolute that are below an element of the page at the URL."""
    base = _base(root, url)
    folder, top = _before("x", base), _before("/x", base)
    for element in root.iter(*_LINKS):
        name = _LINKS[element.tag]
        link = element.get(name)
        if link is None or _WHOLE.fullmatch(link):
            continue
        plain = _PLAIN.fullmatch(link)
        if plain and folder and top:  # as most are: urljoin takes ten times as long
            element.set(name, top + link[1:] if plain[1] else folder + link)
        else:
            with suppress(ValueError):  # a malformed one stays as it is
                element.set(name, _joined(base, link))


def _before(link: str, base: str) -> str:
    """Return what stands before a plain link once it is joined; empty: it is not that simple."""
    with suppress(ValueError):
        joined = _joined(base, link)
        if joined.startswith(("http://", "https://")):
            return joined.removesuffix("x")
    return ""


def _base(root: Any, url: str) -> str:
    """Return what links are relative to: the page's own base, unless browsers ignore it."""
    href = next((each.get("href") for each in root.iter("base") if "href" in each.attrib), "")
    with suppress(ValueError):
        base = _joined(url, href)
        if not base.lower().startswith(("data:", "javascript:")):
            return base
    return url


def _joined(base: str, link: str) -> str:
    """Return an absolute link; one of a scheme such as mailto: or javascript: as it is.

    Raises:
        ValueError: it is malformed.
    """
    stripped = link.strip(_BLANKS)
    joint = stripped.translate(_NO_BREAKS)
    if _OPAQUE.match(joint):
        return stripped
    if "\\" in joint:
        path = re.match("[^?#]*", joint)[0]  # type: ignore[index] - it always matches
        joint = path.replace("\\", "/") + joint[len(path) :]
    return urljoin(base, joint)
