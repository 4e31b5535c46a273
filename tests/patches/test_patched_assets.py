"""What the editor loads is installed and served, and nothing comes from elsewhere."""

import re
from functools import cache
from pathlib import Path

import assets
import pytest

from pyspider_zk.webui.cluster import create_pages

CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)")
TYPES = {".css": {"text/css"}, ".js": {"text/javascript", "application/javascript"}}


@cache
def cdn() -> Path:
    import pyspider.webui

    return Path(pyspider.webui.__file__).parent / "static" / "cdn"


def asked(**config: str) -> set[str]:
    """Return what the editor's page loads of libraries."""
    with create_pages(config).test_client().get("/editor") as page:
        urls: list[str] = re.findall(r'(?:src|href)="([^"]+)', page.text)
    return {url for url in urls if "codemirror" in url}


def test_all_that_the_editor_asks_for_is_served_here() -> None:
    import pyspider.webui

    assert len(asked()) >= 15
    for url in asked():
        with pyspider.webui.app.app.test_client().get(url) as reply:
            assert reply.status_code == 200, url
            assert reply.mimetype in TYPES[Path(url).suffix], url
            assert reply.data


def test_no_style_sheet_asks_for_more() -> None:
    sheets = list(cdn().rglob("*.css"))
    assert sheets
    urls = [url for sheet in sheets for url in CSS_URL.findall(sheet.read_text())]
    assert [url for url in urls if not url.startswith("data:")] == []


def test_nothing_is_installed_that_no_page_asks_for() -> None:
    there = {path.relative_to(cdn()).as_posix() for path in cdn().rglob("*") if path.is_file()}
    licences = {path for path in there if path.endswith("/LICENSE.txt")}
    assert {f"/static/cdn/{path}" for path in there - licences} == asked()


def test_the_library_tells_its_licence() -> None:
    text = (cdn() / assets.FOLDER / "LICENSE.txt").read_text()
    assert "MIT" in text or "Permission is hereby granted" in text


@pytest.mark.parametrize("url", ["//cdn.test/libs/", "https://cdn.test/libs/"])
def test_a_cdn_is_asked_if_one_is_named(url: str) -> None:
    assert f"{url}codemirror/5.65.20/codemirror.min.js" in asked(cdn=url)
    assert not [each for each in asked(cdn=url) if not each.startswith(url)]
