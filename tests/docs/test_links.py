"""The documentation: its links lead somewhere, and what it says of the API is there."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.webui.api import create_api
from pyspider_zk.webui.api.backend import Backend

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("patches/*.md"),
    *ROOT.glob("tests/*/README.md"),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub makes them of its headings."""
    kept = (re.sub(r"[^\w\- ]", "", each.lower()) for each in HEADING.findall(page.read_text()))
    return {each.strip().replace(" ", "-") for each in kept}


def is_there(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not is_there(page, link)] == []


def test_there_are_links() -> None:
    assert sum(len(LINK.findall(page.read_text())) for page in PAGES) > 50


def documented_requests() -> set[tuple[str, str]]:
    """Return what the first column of docs/api.md names: `GET /members`, `/members/{number}`."""
    rows = re.findall(r"^\| (`[A-Z]+ /[^|]+) \|", (ROOT / "docs/api.md").read_text(), re.M)
    found = set()
    for row in rows:
        method = ""
        for given, path in re.findall(r"`(?:([A-Z]+) )?(/[^`]+)`", row):
            method = given or method
            found.add((method, path))
    return found


def served_requests() -> set[tuple[str, str]]:
    nothing: Any = dict.fromkeys(field.name for field in fields(Backend))  # no request is made
    rules = create_api(Backend(**nothing)).url_map.iter_rules()
    return {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in rules
        for method in rule.methods or ()
        if method not in ("HEAD", "OPTIONS") and rule.rule != "/openapi.json"
    }


def test_the_documented_requests_are_those_that_are_served() -> None:
    assert documented_requests() == served_requests()


def test_examples_call_what_is_served() -> None:
    text = "".join(page.read_text() for page in PAGES)
    called = set(re.findall(r"(?:\$api|/api/v1)/([a-z-]+)", text))
    assert called - {path.split("/")[1] for _, path in served_requests()} == {"openapi"}
