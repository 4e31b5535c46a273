"""What the pages load is installed and served, and nothing comes from elsewhere."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import assets
import pytest

CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)")
FROM_ELSEWHERE = re.compile(r"(?:src|<link[^>]*href|url\()\s*=?\s*['\"]?(?:https?:)?//[^'\")\s]*")
BYTES = "application/octet-stream"  # where the system has no mime.types; browsers do not mind
TYPES = {
    ".css": {"text/css"},
    ".eot": {"application/vnd.ms-fontobject", BYTES},
    ".gif": {"image/gif"},
    ".js": {"text/javascript", "application/javascript"},
    ".png": {"image/png"},
    ".svg": {"image/svg+xml"},
    ".ttf": {"font/ttf", "application/x-font-ttf", BYTES},
    ".woff": {"font/woff", "application/font-woff", BYTES},
    ".woff2": {"font/woff2", BYTES},
}


@cache
def webui() -> Path:
    import pyspider.webui

    return Path(pyspider.webui.__file__).parent


def templates() -> dict[str, str]:
    return {path.name: path.read_text() for path in webui().glob("templates/*.html")}


def asked_by_templates() -> set[str]:
    """Return the paths that the templates ask a CDN for."""
    found = re.compile(r"url_for\('cdn', path='([^']+)'\)")
    return {path for text in templates().values() for path in found.findall(text)}


def references(css: Path) -> set[str]:
    """Return the URLs in a style sheet that are files of their own."""
    urls = CSS_URL.findall(css.read_text())
    return {url for url in urls if not url.startswith(("data:", "about:"))}


@pytest.fixture
def app() -> Iterator[Any]:
    import pyspider.webui

    app = pyspider.webui.app.app
    before = dict(app.config)
    yield app
    app.config.clear()
    app.config.update(before)


def url_of(app: Any, path: str) -> str:
    from flask import url_for

    with app.test_request_context():
        return url_for("cdn", path=path)


def assert_served(app: Any, url: str) -> None:
    path = urlsplit(url).path
    with app.test_client().get(path) as reply:
        assert reply.status_code == 200, path
        assert reply.mimetype in TYPES[Path(path).suffix], path
        assert reply.data


def test_the_templates_ask_for_something() -> None:
    assert len(templates()) == 1
    assert len(asked_by_templates()) >= 20


def test_all_that_a_template_asks_for_is_served_here(app: Any) -> None:
    for path in asked_by_templates():
        url = url_of(app, path)
        assert url == f"/static/cdn/{path}"
        assert_served(app, url)


def test_all_that_a_style_sheet_asks_for_is_served_here(app: Any) -> None:
    sheets = list(webui().glob("static/**/*.css"))
    asked = {
        urljoin(f"/{sheet.relative_to(webui()).as_posix()}", url)
        for sheet in sheets
        for url in references(sheet)
    }
    assert len(asked) >= 5
    for url in asked:
        assert_served(app, url)


def test_nothing_is_installed_that_no_page_asks_for() -> None:
    cdn = webui() / "static" / "cdn"
    there = {path.relative_to(cdn).as_posix() for path in cdn.rglob("*") if path.is_file()}
    sheets = [path for path in asked_by_templates() if path.endswith(".css")]
    asked = {
        urlsplit(urljoin(f"/{sheet}", url)).path.removeprefix("/")
        for sheet in sheets
        for url in references(cdn / sheet)
    }
    licences = {path for path in there if path.endswith("/LICENSE.txt")}
    assert there - licences == asked_by_templates() | asked


def test_no_template_names_another_server() -> None:
    assert [FROM_ELSEWHERE.findall(text) for text in templates().values()] == [[]]


@pytest.mark.parametrize("package", assets.PACKAGES, ids=lambda package: package.spec)
def test_every_library_tells_its_licence(package: assets.Package) -> None:
    text = (webui() / "static" / "cdn" / package.folder / "LICENSE.txt").read_text()
    assert "MIT" in text or "Permission is hereby granted" in text


@pytest.mark.parametrize("cdn", ["//cdn.test/libs/", "https://cdn.test/libs/"])
def test_a_cdn_is_asked_if_one_is_named(app: Any, cdn: str) -> None:
    app.config["cdn"] = cdn
    assert url_of(app, "jsonlint/1.6.0/jsonlint.min.js") == f"{cdn}jsonlint/1.6.0/jsonlint.min.js"


def test_an_endpoint_that_is_none_is_still_an_error(app: Any) -> None:
    from werkzeug.routing import BuildError

    with app.test_request_context(), pytest.raises(BuildError):
        app.url_for("absent")
