"""The script that PhantomJS runs, in another engine; nobody packages PhantomJS any more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspider.fetcher
import pytest
from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCRIPT = Path(pyspider.fetcher.__file__).with_name("phantomjs_fetcher.js")
RUN = """([script, port, request]) => {
    const told = {listens: "", answers: [], pages: 0};
    const answer = {write: body => told.answers.push(body), closeGracefully() {}};
    const modules = {
        system: {args: ["script", port]},
        webserver: {create: () => ({listen(address, options, handle) {
            told.listens = address;
            handle(request, answer);
            return true;
        }})},
        webpage: {create() { told.pages += 1; throw new Error("a page was opened"); }},
    };
    const phantom = {clearCookies() {}, exit() {}};
    try {
        new Function("require", "phantom", script)(name => modules[name], phantom);
    } catch (error) {
        if (error.message != "a page was opened") throw error;
    }
    return told;
}"""


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.new_context() as context:
        yield context.new_page()


def run(page: Page, port: str, **headers: str) -> Any:
    request = {"method": "POST", "headers": headers, "postRaw": '{"url": "http://site.example/"}'}
    return page.evaluate(RUN, [SCRIPT.read_text(encoding="utf-8"), port, request])


@pytest.mark.parametrize(
    ("port", "address"),
    [("25555", "127.0.0.1:25555"), ("0.0.0.0:1", "0.0.0.0:1"), ("127.0.0.1:2", "127.0.0.1:2")],
)
def test_it_listens_on_loopback_unless_told_otherwise(page: Page, port: str, address: str) -> None:
    assert run(page, port)["listens"] == address


def test_a_fetcher_gets_its_page(page: Page) -> None:
    assert run(page, "1", Host="127.0.0.1:1")["pages"] == 1


@pytest.mark.parametrize("name", ["Origin", "origin", "Sec-Fetch-Site"])
def test_a_browser_gets_none(page: Page, name: str) -> None:
    told = run(page, "1", **{name: "http://evil.example"})
    assert (told["pages"], told["answers"]) == (0, ["method not allowed!"])
