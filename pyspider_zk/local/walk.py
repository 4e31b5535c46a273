"""What a crawl of a folder's site must find: a walk over the files, without pyspider.

The rule is the demo handlers' one: follow every ``<a href>``, drop the fragment, stay on the
site, and take what ends in ``.html``. The code is another one, so that a fault is not made twice.
"""

from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

START = "index.html"


class _Links(HTMLParser):
    """Collects the targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the target of a link."""
        if tag == "a":
            self.found.update(value for name, value in attrs if name == "href" and value)


def links(page: str) -> set[str]:
    """Return the targets of the links in a page's HTML, as they are written there."""
    parser = _Links()
    parser.feed(page)
    parser.close()
    return parser.found


def pages(folder: Path, site: str, start: str = START) -> set[str]:
    """Return the URLs of all pages that links lead to from the start page.

    Reads every one of these files; blocks for seconds with hundreds of them.

    Args:
        folder: the files.
        site: the URL of the folder, with a slash at the end.
        start: the start page's path in the folder.
    """
    seen: set[str] = set()
    ahead = deque([site + start])
    while ahead:
        url = ahead.popleft()
        file = _file(folder, site, url)
        if url in seen or file is None:
            continue
        seen.add(url)
        text = file.read_text(encoding="utf-8", errors="replace")
        ahead.extend(urljoin(url, link.strip()).partition("#")[0] for link in links(text))
    return seen


def _file(folder: Path, site: str, url: str) -> Path | None:
    """Return the file behind a URL; None if it is no page of the site."""
    if not url.startswith(site) or not url.endswith(".html"):
        return None
    file = folder / unquote(urlsplit(url).path.removeprefix(urlsplit(site).path))
    return file if file.is_file() else None
