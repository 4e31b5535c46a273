"""Parts of the site that the demo crawls: one pyspider project each. Pure but for the script.

A project only gets the site's root, the start of the crawl and its own part. The parts are the
folders that the start page links to.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from pyspider_zk.demo.walk import below, targets

HOME = "docs"
MOST = 24  # parts beside the home; one project each, so more show nothing new

_SCRIPT = Path(__file__).with_name("handlers") / "docs.py"
_CONSTANTS = re.compile(r"(# The demo replaces .*\n)(?:.*\n)*?(# \.\.\. to here)")


@dataclass(frozen=True)
class Parts:
    """A site and its parts.

    Attributes:
        start: URL of the page where the crawl starts.
        site: what every page's URL begins with.
        projects: by how a part's URLs begin, the project that crawls it. All other pages are
            the home project's.
        home: the home project.
    """

    start: str
    site: str
    projects: Mapping[str, str]
    home: str = HOME

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all projects."""
        return (self.home, *self.projects.values())


def split(start: str, page: str) -> Parts:
    """Return the parts of a site.

    Args:
        start: URL of the start page; the site is everything in its folder.
        page: HTML of the start page.
    """
    site = urljoin(start, ".")
    paths = (below(site, url) for url in targets(start, page) if url.endswith(".html"))
    folders = Counter(path.partition("/")[0] for path in paths if "/" in path)
    projects = {f"{site}{folder}/": _name(folder) for folder, _ in folders.most_common(MOST)}
    return Parts(start, site, _without_twins(projects))


def script(parts: Parts) -> str:
    """Return the handler script for these parts; the same for every project."""
    constants = (
        f"START = {parts.start!r}\n"
        f"SITE = {parts.site!r}\n"
        f"HOME = {parts.home!r}\n"
        f"PARTS = {dict(parts.projects)!r}\n"
    )
    return _CONSTANTS.sub(
        lambda found: found[1] + constants + found[2], _SCRIPT.read_text(encoding="utf-8")
    )


def _name(folder: str) -> str:
    return f"{HOME}_{re.sub('[^A-Za-z0-9]', '_', folder)}"[:64]


def _without_twins(projects: Mapping[str, str]) -> dict[str, str]:
    """Leave the parts whose project name is taken to the home project."""
    first = {name: prefix for prefix, name in reversed(list(projects.items()))}
    return {prefix: name for prefix, name in projects.items() if first[name] == prefix}
