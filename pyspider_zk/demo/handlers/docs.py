"""The demo's handler script: every project crawls one part of a site.

A page of another part is handed to that part's project as a message, so the projects together
find what links lead to from the one start page, and no page is fetched by two of them.
"""

from typing import Any
from urllib.parse import SplitResult, urldefrag, urlsplit

from pyspider.libs.base_handler import BaseHandler, catch_status_code_error

# The demo replaces the lines from here ...
START = "http://127.0.0.1:8000/index.html"  # where the whole crawl starts
SITE = "http://127.0.0.1:8000/"  # what every page's URL begins with
HOME = "docs"  # the project of all pages in no other part
PARTS = {"http://127.0.0.1:8000/library/": "docs_library"}  # how a part's URLs begin: its project
# ... to here.

GONE = 404
PORTS = {"http": 80, "https": 443}  # where nobody says another


def project_of(url: str) -> str:
    """Return the project whose part a page is in."""
    return next((name for part, name in PARTS.items() if within(url, part)), HOME)


def within(url: str, site: str) -> str:
    """Return a URL in the site's spelling; empty if it is of another host, or not below it."""
    try:
        page, home = urlsplit(urldefrag(url).url), urlsplit(site)
        is_ours = origin(page) == origin(home) and page.path.startswith(home.path)
    except ValueError:  # no address, such as http://[
        return ""
    return page._replace(scheme=home.scheme, netloc=home.netloc).geturl() if is_ours else ""


def origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port."""
    return url.scheme, url.hostname, url.port or PORTS.get(url.scheme)


class Handler(BaseHandler):  # type: ignore[misc]  # pyspider ships no types
    """Follows the links to pages of the site."""

    def on_start(self) -> None:
        """Begin at the start page, if it is ours; else wait for messages."""
        if project_of(START) == self.project_name:
            self.crawl(START, callback=self.page)

    def on_message(self, _project: str, urls: list[str]) -> None:
        """Crawl what another project came across in our part."""
        for url in urls:
            self.crawl(url, callback=self.page)

    @catch_status_code_error  # type: ignore[untyped-decorator]  # pyspider ships no types
    def page(self, response: Any) -> dict[str, str] | None:
        """Follow the links; the result is the page's address and title."""
        if response.status_code == GONE:  # a dead link is no failure of the crawl
            return None
        response.raise_for_status()
        for project, urls in self.links(response).items():
            if project == self.project_name:
                self.on_message(project, urls)
            else:
                self.send_message(project, urls)
        return {"url": response.url, "title": response.doc("title").text()}

    def links(self, response: Any) -> dict[str, list[str]]:
        """Return the pages of the site that a page links to, by project."""
        links = response.doc("a[href]").items()
        found: dict[str, list[str]] = {}
        for url in sorted({within(link.attr.href, SITE) for link in links}):
            if url.endswith(".html"):
                found.setdefault(project_of(url), []).append(url)
        return found
