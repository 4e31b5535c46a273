"""Expected pages of a crawl: a walk over a folder's files, without pyspider.

The rule is the handler script's one: follow every ``<a href>``, drop the fragment, stay on the
site, and take what ends in ``.html``. The code is another one, so that a fault is not made twice.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin

START = "index.html"


class _Links(HTMLParser):
    """Collects the targets of a page's links, as they are written there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the target of a link."""
        if tag == "a":
            self.found.update(value for name, value in attrs if name == "href" and value)


def pages(folder: Path, site: str) -> set[str]:
    """Return the URLs of all pages that links lead to from the start page.

    Reads every one of these files; blocks for seconds with hundreds of them.

    Args:
        folder: the files.
        site: the URL of the folder, with a slash at the end.
    """
    seen: set[str] = set()
    ahead = [site + START]
    while ahead:
        url = ahead.pop()
        file = _file(folder, url.removeprefix(site))
        if url not in seen and file is not None:
            seen.add(url)
            page = file.read_text(encoding="utf-8", errors="replace")
            ahead += [link for link in links(url, page) if link.startswith(site)]
    return seen


def links(url: str, page: str) -> set[str]:
    """Return the addresses that a page links to, without fragments; the page is at the URL."""
    parser = _Links()
    parser.feed(page)
    parser.close()
    found = set()
    for link in parser.found:
        try:
            found.add(urljoin(url, link.strip()).partition("#")[0])
        except ValueError:  # no address, such as http://[
            continue
    return found


def _file(folder: Path, path: str) -> Path | None:
    """Return the file behind a page's path below the site; None if there is none."""
    parts = unquote(path).split("/")
    file = folder.joinpath(*parts)
    return file if path.endswith(".html") and ".." not in parts and file.is_file() else None
