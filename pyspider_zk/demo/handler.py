"""The demo's handler script, which pyspider runs: every project crawls one folder of a site.

A page of another folder is handed to that folder's project as a message, so the projects together
find what links lead to from the one start page, and no page is fetched by two of them.
"""

import re
from typing import Any
from urllib.parse import urljoin

from pyspider.libs.base_handler import BaseHandler, catch_status_code_error

HOME = "docs"  # the project of all pages in no folder that has a project
LONGEST = 64  # characters of a project's name
GONE = 404
TIMEOUT = 30  # seconds that a fetch may take
RETRY_DELAY = 10  # seconds until a page that could not be had is fetched again
RETRIES = 3
# The demo sets these anew at the end of the script.
START = "http://127.0.0.1:8000/index.html"  # where the whole crawl starts
PROJECTS = (HOME,)


def site() -> str:
    """Return what every page's URL begins with."""
    return urljoin(START, ".")


def folder_project(path: str) -> str:
    """Return the project that the page's folder would have; its path is that below the site."""
    folder, slash, _ = path.partition("/")
    return f"{HOME}_{re.sub('[^A-Za-z0-9]', '_', folder)}"[:LONGEST] if slash else HOME


def project_of(url: str) -> str:
    """Return the project of a page of the site."""
    project = folder_project(url.removeprefix(site()))
    return project if project in PROJECTS else HOME


class Handler(BaseHandler):  # type: ignore[misc]  # pyspider ships no types
    """Follows the links to pages of the site."""

    crawl_config = {  # noqa: RUF012 - pyspider's name
        "timeout": TIMEOUT,
        "connect_timeout": TIMEOUT,
        "retries": RETRIES,
    }
    retry_delay = RETRY_DELAY

    def on_start(self) -> None:
        """Begin at the start page, if it is ours; else wait for messages."""
        if project_of(START) == self.project_name:
            self.crawl(START, callback=self.page)

    def on_message(self, _project: str, urls: list[str]) -> None:
        """Crawl what another project came across in our folder."""
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
        for url in sorted({link.attr.href.partition("#")[0] for link in links}):
            if url.startswith(site()) and url.endswith(".html"):
                found.setdefault(project_of(url), []).append(url)
        return found
