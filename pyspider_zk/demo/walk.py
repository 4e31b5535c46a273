"""Expected pages of a crawl: a walk over a folder's files, without pyspider.

The rule is the demo handlers' one: follow every ``<a href>``, drop the fragment, stay on the
site, and take what ends in ``.html``. The code is another one, so that a fault is not made twice.
"""

from collections import deque
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

START = "index.html"


class _Links(HTMLParser):
    """Collects the targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the target of a link."""
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
    ahead = deque([start])
    while ahead:
        path = ahead.popleft()
        file = _file(folder, path)
        if site + path in seen or file is None:
            continue
        seen.add(site + path)
        text = file.read_text(encoding="utf-8", errors="replace")
        ahead.extend(filter(None, (below(site, target) for target in targets(site + path, text))))
    return seen


def targets(url: str, page: str) -> Iterator[str]:
    """Return the addresses that a page links to, without fragments; the page is at the URL."""
    for link in sorted(links(page)):
        try:
            target = urljoin(url, link.strip()).partition("#")[0]
        except ValueError:  # no address, such as http://[
            continue
        yield target


def below(site: str, url: str) -> str:
    """Return what follows the site's URL; empty if that is of another scheme, host or port.

    Args:
        site: with a slash at the end.
    """
    try:
        home, target = urlsplit(site), urlsplit(url)
        if _origin(home) != _origin(target) or not target.path.startswith(home.path):
            return ""
    except ValueError:  # a port that is none
        return ""
    return target.path.removeprefix(home.path) + (f"?{target.query}" if target.query else "")


def _origin(url: SplitResult) -> tuple[object, ...]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _file(folder: Path, path: str) -> Path | None:
    """Return the file behind a page's path below the site; None if there is none."""
    parts = unquote(path).split("/")
    file = folder.joinpath(*parts)
    return file if path.endswith(".html") and ".." not in parts and file.is_file() else None
