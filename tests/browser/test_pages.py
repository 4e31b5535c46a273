"""The pages of tasks and results, in a browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCRIPT, Web

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]


@pytest.fixture
def crawled(page: Page, web: Web, site: str, eventually: Callable[..., None]) -> str:
    """Give a project that ran, once for all tests."""
    if web.project("crawled") is None:
        web.add_project("crawled", script=SCRIPT.format(site=site), status="RUNNING")
        assert page.request.post("/run", form={"project": "crawled"}).json() == {"result": True}
    eventually(lambda: web.results("crawled") == 2)
    return "crawled"


def test_active_tasks_are_listed_and_lead_to_their_pages(
    page: Page, crawled: str, site: str, picture: Picture
) -> None:
    page.goto(f"/tasks?project={crawled}")
    listed = page.locator(".tasks .task", has_text=f"{site}/one").first
    expect(listed.locator(".status")).to_have_text("SUCCESS")
    picture(page)
    with page.expect_popup() as opened:
        listed.locator(".url").click()
    expect(opened.value.locator(".callback")).to_have_text("crawled.detail_page")


def test_a_task_tells_how_it_went(page: Page, crawled: str, picture: Picture) -> None:
    page.goto(f"/task/{crawled}:on_start")
    expect(page.locator(".base-info .status")).to_have_text("SUCCESS")
    expect(page.locator(".glyphicon-ok").first).to_be_visible()
    picture(page)


def test_results_are_listed(page: Page, crawled: str, picture: Picture) -> None:
    page.goto(f"/results?project={crawled}")
    expect(page.locator("table tbody tr")).to_have_count(2)
    expect(page.locator("table")).to_contain_text("page /two")
    picture(page)
