"""What a cluster adds to pyspider's dashboard, in a browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.cluster_page import confirm, dialog, forgive
from tests.browser.conftest import BrowsedCluster, PageWatch, Web

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    return cluster.web


@pytest.fixture
def dashboard(page: Page, cluster: BrowsedCluster) -> Page:
    """Give the dashboard with a project that stands still."""
    cluster.make("still")
    page.goto("/")
    return page


def project(page: Page, name: str = "still") -> Locator:
    return page.locator(f"tr[data-name={name}]")


def operate(page: Page, operation: str, name: str = "still") -> None:
    page.get_by_role("button", name=f"operations on {name}").click()
    project(page, name).get_by_role("link", name=operation, exact=True).click()


def says(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".cluster-message")).to_have_text(text)


def test_it_shows_the_owners_and_leads_to_the_pages(
    dashboard: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    owner = cluster.ask("projects/still")["owner"]
    expect(project(dashboard).locator(".project-owner")).to_have_text(str(owner))
    picture(dashboard)
    dashboard.get_by_role("link", name="Cluster").click()
    expect(dashboard).to_have_title("Overview - cluster - pyspider")


def test_a_project_is_started_restarted_and_stopped(
    dashboard: Page, cluster: BrowsedCluster
) -> None:
    for operation, status in (("Start", "RUNNING"), ("Restart", "RUNNING"), ("Stop", "STOP")):
        operate(dashboard, operation)
        says(dashboard, f"{operation.lower()}: 1 of 1 project done")
        expect(project(dashboard).locator(".project-status")).to_have_text(status)
        assert cluster.web.project("still")["status"] == status


def test_a_row_that_was_changed_by_hand_still_shows_what_is_done_to_it(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("by_hand")
    page.goto("/")
    status, group = (
        project(page, "by_hand").locator(f".project-{each}>span") for each in ("status", "group")
    )
    expect(group).to_have_text("[group]")
    status.click()
    form = page.locator(".cell-form")
    form.locator("select").select_option("DEBUG")
    form.locator("[type=submit]").click()
    expect(status).to_have_text("DEBUG")
    operate(page, "Delete", "by_hand")
    dialog(page).get_by_label("stop now and delete after pyspider's 24 hours").check()
    dialog(page).get_by_label("Type by_hand to confirm").fill("by_hand")
    confirm(page, "Delete by_hand")
    says(page, "delete: 1 of 1 project done")
    expect(status).to_have_text("STOP")
    expect(status).to_have_css("background-color", "rgb(217, 83, 79)")
    expect(group).to_have_text("delete")
    picture(page)
    status.click()
    expect(form.locator("select")).to_have_value("STOP")
    form.locator("[type=button]").click()
    group.click()
    expect(form.locator("input")).to_have_value("delete")


def test_what_was_done_is_not_called_impossible_if_only_the_row_cannot_be_read(
    dashboard: Page, watch: PageWatch
) -> None:
    dashboard.route("**/api/v1/projects/still", lambda route: route.abort())
    operate(dashboard, "Stop")
    says(
        dashboard,
        "stop: 1 of 1 project done; its row may be outdated: the web UI itself does not answer",
    )
    forgive(watch, "ERR_FAILED")


def test_the_dashboard_deletes_a_project_only_once_its_name_is_typed(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("doomed", "spared")
    page.goto("/")
    operate(page, "Delete", "doomed")
    expect(dialog(page).get_by_role("button", name="Delete")).to_be_disabled()
    dialog(page).get_by_label("Type doomed to confirm").fill("doomed")
    picture(page)
    confirm(page, "Delete doomed")
    says(page, "delete: 1 of 1 project done")
    expect(project(page, "doomed")).to_have_count(0)
    expect(project(page, "spared")).to_have_count(1)
    assert cluster.web.project("doomed") is None


def test_a_locked_project_stays_locked_where_nobody_can_log_in(
    chromium: Browser, cluster: BrowsedCluster
) -> None:
    cluster.make("locked", group="lock")
    anybody = {"username": "anybody", "password": "anything"}
    with chromium.new_context(base_url=cluster.web.url, http_credentials=anybody) as context:
        page = context.new_page()
        page.goto("/")
        operate(page, "Start", "locked")
        says(page, re.compile("^Cannot start locked: .*log in"))
    assert cluster.web.project("locked")["status"] == "STOP"
