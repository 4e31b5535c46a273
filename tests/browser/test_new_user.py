"""A new user: from a broken script to its pages fetched again, by nothing but presses in pages."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.cluster_page import confirm, dialog, row
from tests.browser.conftest import SCRIPT, BrowsedCluster, Web, save, write_script

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    return cluster.web


def press(page: Page, *links: str) -> None:
    for link in links:
        page.get_by_role("link", name=link, exact=True).click()


def test_a_broken_script_is_mended_and_its_pages_are_fetched_again(page: Page, site: str) -> None:
    page.on("dialog", lambda asked: pytest.fail(asked.message))  # nothing is left unsaved
    # Nothing is fetched again before it is asked for.
    patient = "    retry_delay = {'': 3600}\n\n    def on_st"
    script = SCRIPT.format(site=site).replace("    def on_st", patient)
    page.goto("/")
    page.get_by_role("button", name="Create").click()
    dialog(page).get_by_label("Name").fill("mine")
    dialog(page).get_by_label("Start URL").fill(f"{site}/")
    dialog(page).get_by_role("button", name="Create").click()
    expect(page.locator("#state")).to_have_text("new")
    write_script(page, script.replace("doc('title').text()", "json['title']"))
    save(page)
    press(page, "Project and versions")
    expect(page.locator("#freshness")).to_have_class("freshness live")
    page.get_by_role("button", name="Start", exact=True).click()
    confirm(page, "Start 1 project")
    expect(page.locator("#failures")).to_contain_text("TypeError: 'NoneType' object")

    press(page, "Overview", "Failures")
    page.get_by_role("button", name=re.compile("^TypeError: 'NoneType' object")).click()
    page.locator("#tasks summary").first.click()
    expect(page.locator("#tasks pre").first).to_contain_text("response.json['title']")
    page.locator("#tasks").get_by_role("link", name="mine").first.click()
    press(page, "Open it in the editor")
    expect(page.locator("#state")).to_have_text("saved")
    write_script(page, script)
    save(page)
    expect(page.locator("#told")).to_contain_text("it crawls nothing until it is RUNNING again")
    press(page, "Set its status")
    expect(page.locator("#freshness")).to_have_class("freshness live")
    page.get_by_role("button", name="Status…").click()
    dialog(page).get_by_label("Status").select_option("RUNNING")
    dialog(page).get_by_role("button", name="Continue").click()
    confirm(page, "Set the status of 1 project")
    expect(page.locator("#batch")).to_contain_text("status: 1 of 1 project done")

    press(page, "Failures")
    page.get_by_role("button", name=re.compile("^fetch all tasks again")).click()
    confirm(page, "Fetch again")
    expect(page.locator("#empty")).to_be_visible()
    press(page, "Projects")
    row(page, "mine").get_by_role("link", name="mine", exact=True).click()
    expect(page.locator("#no-failures")).to_be_visible()
    expect(page.locator("#versions tbody tr")).to_have_count(2)
    press(page, "Results")
    expect(page.locator("main tbody tr")).to_have_count(2)
