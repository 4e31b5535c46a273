"""What an operator asks all day, from the overview, in three presses at most.

What a dialog asks for before something is changed comes on top.
"""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.cluster_page import confirm, dialog, open_page
from tests.browser.conftest import BrowsedCluster, Web
from tests.support import waiting

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

MOST = 3
PAUSING = 10  # tasks in a row that must have failed for a project to be paused
ERROR = "KeyError: 'price'"

SCRIPT = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    retry_delay = {'': -1}

    @every(minutes=60)
    def on_start(self):
        for number in range(%d):
            self.crawl('data:,%%d' %% number, callback=self.detail_page)

    def detail_page(self, response):
        print('looked at', response.url)
        %s
"""


class Operator:
    """A person who has opened the overview."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._pressed = 0
        open_page(page, "")

    def press(self, *there: Locator | str) -> None:
        """Press one after the other; a text is that of a link."""
        for each in there:
            self._pressed += 1
            assert self._pressed <= MOST, f"{self._pressed} presses are needed for {each}"
            link = self.page.get_by_role("link", name=str(each), exact=True)
            (link.first if isinstance(each, str) else each).click()


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    """Give the web UI of a cluster with a project that fails, and one that cannot start."""
    web = cluster.web
    for name, (tasks, line) in {
        "failing": (PAUSING, "return {'price': {}['price']}"),
        "once": (1, "raise ValueError('once')"),
    }.items():
        web.add_project(name, status="RUNNING", script=SCRIPT % (tasks, line), group="shops")
    web.add_project("misspelt", status="RUNNING", script="class Handler(:", group="news")
    cluster.make("still")
    for name in ("failing", "once"):
        cluster.run(name)
    waiting.eventually(lambda: failed(cluster) == PAUSING + 1)
    return web


def failed(cluster: BrowsedCluster) -> int:
    """Return how many tasks fail."""
    return sum(each["tasks"] for each in cluster.ask("failures")["items"])


@pytest.fixture
def operator(page: Page) -> Operator:
    return Operator(page)


def test_why_a_project_fails(page: Page, operator: Operator) -> None:
    operator.press("Projects", "failing")
    expect(page.locator("#failures")).to_contain_text(ERROR)
    operator.press(ERROR)
    expect(page.locator("#tasks tbody tr")).to_have_count(PAUSING)


def test_what_a_failing_page_met(page: Page, operator: Operator) -> None:
    operator.press("Failures", page.get_by_role("button", name=ERROR, exact=True))
    operator.press(page.locator("#tasks summary").first)
    expect(page.locator("#tasks pre").first).to_contain_text("in detail_page")


def test_why_a_project_cannot_start(page: Page, operator: Operator) -> None:
    operator.press("Projects", "misspelt")
    expect(page.locator("#alerts")).to_contain_text("its script does not run: SyntaxError")


def test_failed_pages_of_all_projects_by_kind(page: Page, operator: Operator) -> None:
    operator.press("Failures")
    kind = page.locator("#kinds tbody tr", has=page.get_by_role("button", name=ERROR, exact=True))
    expect(kind).to_contain_text(str(PAUSING))


def test_one_failed_page_is_fetched_again(page: Page, operator: Operator) -> None:
    kind = page.get_by_role("button", name="ValueError: once", exact=True)
    operator.press("Failures", kind)
    operator.press(page.get_by_role("button", name="fetch data:,0 again"))
    expect(dialog(page)).to_contain_text("Fetch data:,0 again?")
    confirm(page, "Fetch again")
    expect(page.locator("#batch")).to_contain_text("refetch: 1 of 1 project done")


def test_a_projects_whole_state(page: Page, operator: Operator) -> None:
    operator.press("Projects", "failing")
    for told in ("RUNNING", "Rate / limit", "Pending", "@every", "1 h", "Owner, slot", "shops"):
        expect(page.locator("#tiles")).to_contain_text(told)
    for part in ("Throughput", "Failures", "Latest tries", "Script", "Versions"):
        expect(page.get_by_role("heading", name=re.compile(f"^{part}"))).to_be_visible()


@pytest.mark.parametrize("way", [(), ("Projects", "failing")])
def test_a_days_history(page: Page, operator: Operator, way: tuple[str, ...]) -> None:
    operator.press(*way)
    operator.press(page.get_by_role("button", name="Day", exact=True))
    expect(page.locator("#chart svg")).to_have_attribute("aria-label", re.compile("in a day$"))


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Rate…", "Tasks per second"),
        ("Stop", "Stop 4 projects"),
        ("Start", "Start 4 projects"),
        ("Delete…", "Delete 4 projects"),
    ],
)
def test_all_projects_are_changed_at_once(
    page: Page, operator: Operator, name: str, asked: str
) -> None:
    operator.press("Projects", page.get_by_label("select all projects on this page"))
    operator.press(page.locator("#actions").get_by_role("button", name=name, exact=True))
    expect(dialog(page)).to_contain_text(asked)


def test_who_did_it(page: Page, operator: Operator) -> None:
    asked = {"operation": "stop", "names": ["still"], "id": "asked_by"}
    page.request.post("/api/v1/batches", data=asked)
    operator.press("Events")
    page.get_by_label("Group").select_option("orders")
    expect(page.locator("#events thead")).to_contain_text("Who")
    expect(page.locator("#events tbody")).to_contain_text("still")


def test_what_a_script_printed(page: Page, operator: Operator) -> None:
    operator.press("Projects", "failing", "data:,3")
    expect(page.locator("#log")).to_contain_text("looked at data:,3")


def test_what_components_warned_of(page: Page, operator: Operator) -> None:
    operator.press("Projects", "failing", "Logs")
    expect(page.locator("#lines, #empty").first).to_be_attached()


def test_an_alert_tells_what_fails_and_leads_there(page: Page, operator: Operator) -> None:
    alerts = page.locator("#alerts")
    expect(alerts).to_contain_text("1 project paused, because the latest tasks failed: failing")
    expect(alerts).to_contain_text("1 project cannot start")
    expect(alerts).not_to_contain_text("All is well")
    paused = alerts.locator("li", has_text="paused").get_by_role("link", name="Show them")
    operator.press(paused)
    expect(page.locator("#projects tbody tr")).to_have_count(1)
    expect(page.locator("#projects")).to_contain_text("failing")
    expect(page.locator("#all-matching")).to_be_hidden()
