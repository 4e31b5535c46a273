"""What the tests of the operations page share."""

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PageWatch

GRAVE = ("serious", "critical")


def dialog(page: Page) -> Locator:
    """Return the open dialog."""
    return page.locator("dialog[open]")


def row(page: Page, text: str) -> Locator:
    """Return the row of a list with this text."""
    return page.locator("main tbody tr", has=page.get_by_text(text, exact=True))


def tick(page: Page, *names: str) -> None:
    """Select rows."""
    for name in names:
        page.get_by_role("checkbox", name=f"select {name}", exact=True).check()


def action(page: Page, name: str) -> Locator:
    """Return a button of the toolbar."""
    return page.locator("#actions").get_by_role("button", name=re.compile(f"^{name}…?$"))


def confirm(page: Page, button: str) -> None:
    """Press a button of the dialog, and wait until that is gone."""
    dialog(page).get_by_role("button", name=button, exact=True).click()
    expect(dialog(page)).to_have_count(0)


def open_page(page: Page, path: str) -> None:
    """Go to a page and wait until it shows what it was told."""
    page.goto(f"/cluster/{path}")
    expect(page.locator("#freshness")).to_have_class("freshness live")


def open_editor(page: Page, project: str, more: str = "") -> None:
    """Open the editor and wait until it has the script."""
    page.goto(f"/cluster/editor?project={project}{more}")
    expect(page.locator("#state")).to_have_text(re.compile("new|saved"))


def check_accessibility(page: Page) -> None:
    """Fail if axe finds something serious."""
    found = Axe().run(page).response["violations"]
    grave = [
        (each["id"], [node["html"] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in GRAVE
    ]
    assert not grave, grave


def check_fits(page: Page) -> None:
    """Fail if the page is wider than its window."""
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def forgive(watch: PageWatch, fault: str) -> None:
    """Take what the browser says of requests that had to fail off the list."""
    assert all(fault in each for each in watch.wrong), watch.wrong
    watch.wrong.clear()
