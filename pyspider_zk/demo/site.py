"""Site that the demo crawls: a folder that we serve, or one that runs already.

The pages that a crawl of a folder must find are known by a walk over its files, without pyspider.
The rule is the handler script's one: follow every ``<a href>``, drop the fragment, stay on the
site, and take what ends in ``.html``. The code is another one, so that a fault is not made twice.
"""

import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from http.client import HTTPException
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urljoin

from pyspider_zk.errors import ClusterError, MissingService
from pyspider_zk.listening import LOOPBACK

START = "index.html"
DOCUMENTATION = Path("/usr/share/doc")
PATIENCE = 10.0  # seconds for the start page

_DOCUMENTATION = re.compile(r"python3\.\d+")  # not python3.11-venv, which links to the same
_NO_SITE = (
    "Python's documentation is missing; Debian/Ubuntu: apt install python3-doc;"
    " elsewhere give a folder of HTML, SITE=folder, or an address, START_URL=http://..."
)


@dataclass(frozen=True)
class DemoSite:
    """A site to crawl.

    Attributes:
        start: URL of the page where the crawl starts.
        page: the HTML of that page.
        expected: the pages that must be found; None if the site is not ours to walk.
        asked: the paths requested from our server so far; None if it is not ours.
    """

    start: str
    page: str
    expected: frozenset[str] | None = None
    asked: list[str] | None = None


@contextmanager
def ours(folder: Path) -> Iterator[DemoSite]:
    """Serve a folder on a loopback port. Blocks for seconds while it walks over the files.

    Raises:
        ClusterError: the folder has no start page.
    """
    folder = folder.resolve()
    if not (folder / START).is_file():
        raise ClusterError(f"there is no {START} in {folder}")
    page = (folder / START).read_text(encoding="utf-8", errors="replace")
    asked: list[str] = []
    handler = partial(_Handler, asked, directory=str(folder))
    with SiteServer((LOOPBACK, 0), handler) as server:
        thread = Thread(target=server.serve_forever, name="site", daemon=True)
        thread.start()
        url = f"http://{LOOPBACK}:{server.server_address[1]}/"
        try:
            yield DemoSite(url + START, page, frozenset(pages(folder, url)), asked)
        finally:
            server.shutdown()
            thread.join()


def foreign(start: str) -> DemoSite:
    """Look at the start page of a site that runs already; blocks for its answer.

    Raises:
        ClusterError: it does not answer.
    """
    if not start.startswith(("http://", "https://")):
        raise ClusterError(f"the start must be an http address, not {start!r}")
    try:
        with urllib.request.urlopen(start, timeout=PATIENCE) as answer:  # noqa: S310 - checked
            return DemoSite(start, answer.read().decode("utf-8", "replace"))
    except (OSError, ValueError, HTTPException) as error:  # the latter two of odd addresses
        raise ClusterError(f"{start} does not answer: {error}") from error


def documentation(where: Path = DOCUMENTATION) -> Path:
    """Return the newest of Python's documentations on this machine.

    Raises:
        MissingService: there is none.
    """
    starts = where.glob("python3.*/html/index.html")
    found = [page.parent for page in starts if _DOCUMENTATION.fullmatch(page.parts[-3])]
    if not found:
        raise MissingService(_NO_SITE)
    return max(found, key=lambda html: int(html.parts[-2].removeprefix("python3.")))


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


class SiteServer(ThreadingHTTPServer):
    """Server with room for a burst of connections.

    Linux drops what finds none, and the fetcher then waits for minutes for an answer.
    """

    request_queue_size = 1024


class _Handler(SimpleHTTPRequestHandler):
    """Handler that serves files and records the requested paths."""

    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True  # else head and body, sent apart, wait for each other

    def __init__(self, asked: list[str], *args: Any, **options: Any) -> None:
        self._asked = asked
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class _Links(HTMLParser):
    """Collects the targets of a page's links, as they are written there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.update(value for name, value in attrs if name == "href" and value)


def _file(folder: Path, path: str) -> Path | None:
    """Return the file behind a page's path below the site; None if there is none."""
    parts = unquote(path).split("/")
    file = folder.joinpath(*parts)
    return file if path.endswith(".html") and ".." not in parts and file.is_file() else None
