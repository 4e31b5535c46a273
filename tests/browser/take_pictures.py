"""Takes the pictures of the documentation; ``make pictures`` runs it, the tests do not."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from tests.browser.cluster_page import open_editor, open_page, tick
from tests.browser.conftest import ROOT, BrowsedCluster, Web

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

FOLDER = ROOT / "docs" / "pictures"
WITHOUT = """root => document.querySelectorAll("details pre").forEach(
    (each) => { each.textContent = each.textContent.replaceAll(root, "/opt/pyspider-zk"); })"""
"""Takes the place where this runs out of the tracebacks that a picture shows."""
TRIES = 1500  # until the pictures are taken

SCRIPT = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    @every(minutes=1)
    def on_start(self):
        for number in range({pages}):
            self.crawl('data:,%d' % number, callback=self.page, age=1)

    def page(self, response):
        assert not response.url.endswith('17'), 'no such page'
        return {{'url': response.url}}
"""


BROKEN = [
    (QueueKind.NEWTASK, {"taskid": "b7c1", "url": "https://shop.example.org/list?page=7"}),
    (QueueKind.NEWTASK, {"project": "news_00", "url": "https://news.example.org/"}),
    (QueueKind.STATUS, {"taskid": "e02f", "project": "blog_02"}),
]


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    for number in range(48):
        subject = ("news", "shop", "blog", "jobs")[number % 4]
        status = "STOP" if number % 5 == 4 else "RUNNING"
        script = SCRIPT.format(pages=20 + 7 * (number % 9))
        group = ("daily", "weekly")[number % 2]
        cluster.web.add_project(
            f"{subject}_{number:02}", status=status, script=script, group=group, rate=1, burst=5
        )
    cluster.look()
    return cluster.web


def reject(cluster: BrowsedCluster) -> None:
    """Publish what nobody can use."""
    queues = connect(cluster.redis.url, 0, 256)
    queues.slot_queues.publish([Message(kind, 40, body) for kind, body in BROKEN])
    queues.close()


def take(page: Page, name: str) -> None:
    page.evaluate(WITHOUT, str(ROOT))
    page.screenshot(path=FOLDER / f"cluster-{name}.png")


def test_take_pictures(
    page: Page, cluster: BrowsedCluster, eventually: Callable[..., None]
) -> None:
    asked = {"operation": "restart", "filter": {"status": "RUNNING"}, "id": "morning"}
    page.request.post("/api/v1/batches", data=asked)
    eventually(lambda: sum(cluster.ask("overview")["throughput"]["success"]) > TRIES, within=300)
    open_page(page, "")
    expect(page.locator("#alerts li")).to_have_text("All is well.")
    take(page, "overview")
    open_page(page, "projects?status=RUNNING&sort=-rate_now")
    names = page.locator("#projects tbody td.first").all_inner_texts()
    tick(page, *names[1:4])
    take(page, "projects")
    open_page(page, f"project?name={names[1]}")
    take(page, "project")
    open_editor(page, names[1])
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#follows li").first).to_be_visible()
    take(page, "editor")
    open_page(page, "tasks?url=data:,1")
    expect(page.locator("#progress")).to_contain_text("100 found")
    take(page, "tasks")
    open_page(page, "failures")
    page.locator("#kinds button.link").first.click()
    page.locator("#tasks summary").first.click()
    take(page, "failures")
    page.locator("#tasks td[data-label=URL] a").first.click()
    expect(page.locator("#freshness")).to_have_class("freshness live")
    take(page, "task")
    open_page(page, "batches?id=morning")
    take(page, "batches")
    open_page(page, "events")
    page.locator("#events summary").first.click()
    take(page, "events")
    reject(cluster)
    eventually(lambda: cluster.ask("dead-letters")["total"] == len(BROKEN))
    open_page(page, "dead-letters")
    tick(page, cluster.ask("dead-letters")["items"][1]["tag"])
    page.locator("#letters summary").nth(1).click()
    take(page, "dead-letters")
    for path, body in (("maintenance", {"mode": "on"}), ("slots/40/pin", {"member": 1})):
        page.request.post(f"/api/v1/{path}", data=body)
    open_page(page, "steering")
    expect(page.locator("#maintenance")).to_contain_text("Since")
    take(page, "steering")
    for path, body in (("maintenance", {"mode": "off"}), ("slots/40/pin", {"member": None})):
        page.request.post(f"/api/v1/{path}", data=body)
    page.get_by_role("button", name="Dark").click()
    open_page(page, "assignment?change=leaves%3D1")
    expect(page.locator("#map .would-move").first).to_be_visible()
    expect(page.locator("#preview button")).to_have_text("Drain member 1…")
    take(page, "assignment")
