"""Target of the demo: a folder that we serve, or a site that runs already."""

import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspider_zk.demo.parts import Parts, split
from pyspider_zk.demo.site import Site, repeats
from pyspider_zk.demo.walk import START, pages
from pyspider_zk.errors import ClusterError, MissingService

DOCUMENTATION = Path("/usr/share/doc")
PATIENCE = 10.0  # seconds for the start page

_DOCUMENTATION = re.compile(r"python3\.\d+")  # not python3.11-venv, which links to the same

_NO_SITE = (
    "Python's documentation is missing; Debian/Ubuntu: apt install python3-doc;"
    " elsewhere give a folder of HTML, SITE=folder, or an address, START_URL=http://..."
)


@dataclass(frozen=True)
class DemoTarget:
    """A site to crawl.

    Attributes:
        parts: the site and its projects.
        expected: the pages that must be found; None if the site is not ours to walk.
        site: our server; None if the site is not ours.
    """

    parts: Parts
    expected: frozenset[str] | None = None
    site: Site | None = None

    @property
    def total(self) -> int | None:
        """The number of pages, if known."""
        return None if self.expected is None else len(self.expected)

    def missing(self, crawled: set[str]) -> frozenset[str] | None:
        """Return the pages that were not crawled; None if nobody knows."""
        return None if self.expected is None else self.expected - crawled

    def duplicate_fetches(self) -> int | None:
        """Return how many requests were not the first for their page; None if not counted."""
        return None if self.site is None else repeats(self.site.requests())


@contextmanager
def ours(folder: Path) -> Iterator[DemoTarget]:
    """Serve a folder. Blocks for seconds while it walks over the files.

    Raises:
        ClusterError: the folder has no start page.
    """
    if not (folder / START).is_file():
        raise ClusterError(f"there is no {START} in {folder}")
    with Site(folder.resolve()) as site:
        parts = split(site.url + START, _get(site.url + START))
        site.forget()
        yield DemoTarget(parts, frozenset(pages(folder.resolve(), site.url)), site)


def foreign(start: str) -> DemoTarget:
    """Look at the start page of a site that runs already; blocks for its answer.

    Raises:
        ClusterError: it does not answer.
    """
    return DemoTarget(split(start, _get(start)))


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


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ClusterError(f"the start must be an http address, not {url!r}")
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - checked above
            return str(answer.read().decode("utf-8", "replace"))
    except OSError as error:
        raise ClusterError(f"{url} does not answer: {error}") from error
