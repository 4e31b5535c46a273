"""The editor of a new project: what comes into its script, and from where."""

import ast
import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.patches.spiders import Spider

HOSTILE = "http://a/' + __import__('os').system('id') + '"


@pytest.fixture
def web(spider: Spider) -> Iterator[Any]:
    import pyspider.webui

    app = pyspider.webui.app.app
    config = dict(app.config)
    app.config["projectdb"] = spider.projectdb
    yield app.test_client()
    app.config.clear()
    app.config.update(config)


def start_of(page: Any) -> ast.expr:
    """Return what the script in a page crawls first."""
    found = re.search(r'data-name="script_content">(.*?)</script>', page.text)
    assert found is not None, page.text
    script = ast.parse(json.loads(html.unescape(found[1])))
    calls = [each for each in ast.walk(script) if isinstance(each, ast.Call)]
    return next(each.args[0] for each in calls if ast.unparse(each.func) == "self.crawl")


@pytest.mark.parametrize(
    "url", ["http://a.example/?b=c&d='e'", "https://a/ https://b/", HOSTILE, "http://a/\\'\n#"]
)
def test_the_start_url_of_the_dashboard_is_a_text_in_the_script(web: Any, url: str) -> None:
    start = start_of(web.post("/debug/fresh", data={"start-urls": url}))

    assert isinstance(start, ast.Constant)
    assert start.value == url


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_address_brings_nothing_into_the_script(web: Any, method: str) -> None:
    send = getattr(web, method)

    start = start_of(send("/debug/fresh", query_string={"start-urls": "http://a/"}))

    assert isinstance(start, ast.Constant)
    assert start.value == "__START_URL__"


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "'+x+'", "__START_URL__'"]
)
def test_only_addresses_of_the_web_start_a_project(web: Any, url: str) -> None:
    answer = web.post("/debug/fresh", data={"start-urls": url})

    assert (answer.status_code, "http://" in answer.text) == (400, True)
    assert url not in answer.text


def test_a_project_that_there_is_keeps_its_script(web: Any, spider: Spider) -> None:
    spider.add_project("demo", "self.crawl('mine')")

    assert start_of(web.post("/debug/demo", data={"start-urls": "http://a/"})).value == "mine"
