"""The operations page while members come and go and services are away, in a browser."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from playwright.sync_api import Locator, Page, expect

from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.records import Component
from pyspider_zk.jobs.model import BatchRecord
from tests.browser.cluster_page import (
    check_accessibility,
    confirm,
    dialog,
    forgive,
    open_page,
    row,
)
from tests.browser.conftest import BrowsedCluster, PageWatch, Web
from tests.conftest import Faults
from tests.support import waiting

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

WELL = re.compile("^All is well")

Picture = Callable[..., None]
Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def lease() -> float:
    """Give a lease that ends long before the session does: a page tells of both."""
    return 4.0


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    for number in range(12):
        cluster.web.add_project(f"p{number}", status="RUNNING")
    cluster.look()
    seen: list[object] = []

    def stands_still() -> bool:
        seen.append(cluster.ask("assignment")["items"])
        return seen[-5:] == [seen[-1]] * 5

    waiting.eventually(stands_still, "slots that have moved, for these projects weigh", look=1)
    return cluster.web


@pytest.fixture(autouse=True)
def whole(web: Web, cluster: BrowsedCluster, eventually: Eventually) -> Iterator[None]:
    """Begin and end with two members that share all slots."""
    del web  # it is to be there first

    def is_whole() -> bool:
        found = cluster.ask("overview")
        members = found["members"] or []
        shared = all(each["slots"] > 100 and not each["draining"] for each in members)
        return len(members) == 2 and shared and not found["missing"] and not found["moving"]

    eventually(is_whole, within=180)
    yield
    eventually(is_whole, within=180)


@contextmanager
def zookeeper_of(cluster: BrowsedCluster) -> Iterator[KazooClient]:
    """Give a client of the cluster's ZooKeeper."""
    client = KazooClient(cluster.zookeeper.address)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def alert(page: Page, text: str | re.Pattern[str]) -> Locator:
    return page.locator("#alerts li", has_text=text)


def test_what_would_move_is_shown_and_nothing_is_changed(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    before = cluster.ask("assignment")["items"]
    open_page(page, "assignment")
    expect(page.locator("#map .slot")).to_have_count(256)
    numbers = [each["number"] for each in cluster.members()]
    for owner in numbers:
        expect(page.locator(f"#map .owner-{owner}").first).to_have_text(str(owner))
    page.get_by_label("if").select_option(f"member {numbers[1]} leaves")
    page.get_by_role("button", name="Show", exact=True).click()
    slots = next(each["slots"] for each in cluster.members() if each["number"] == numbers[1])
    expect(page.locator("#preview")).to_contain_text(f"{slots} slots would move")
    expect(page.locator("#map .would-move")).to_have_count(slots)
    picture(page, "leaves")
    page.get_by_label("if").select_option("one member joins")
    page.get_by_role("button", name="Show", exact=True).click()
    free = next(number for number in range(3) if number not in numbers)
    expect(page.locator("#preview tbody tr").first).to_contain_text(f"member {free}")
    assert "change=joins" in page.url
    picture(page, "joins")
    assert cluster.ask("assignment")["items"] == before


def test_what_is_at_fault_is_shown_with_the_reason_and_mended(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.web.add_project("broken", status="RUNNING", rate="fast")
    cluster.look()
    stray = "/pages/members/note"
    with zookeeper_of(cluster) as client:
        client.create(stray, b"")
        open_page(page, "")
        quarantine, unreadable = page.locator("#quarantine"), page.locator("#unreadable")
        expect(quarantine).to_contain_text("rate must be a number")
        expect(alert(page, "1 project in quarantine: broken")).to_be_visible()
        expect(unreadable).to_contain_text(stray)
        expect(alert(page, "passed over as unreadable")).to_be_visible()
        check_accessibility(page)
        picture(page)
        client.delete(stray)
    cluster.web.change_project("broken", rate=1)
    cluster.look()
    expect(quarantine).to_be_hidden()
    expect(unreadable).to_be_hidden()
    expect(alert(page, WELL)).to_be_visible()
    cluster.web.drop_project("broken")
    cluster.look()


ODD = {"toString": None, "valueOf": None}
"""What JavaScript cannot make a text of."""

WRITTEN = [
    ("events/event-0000009998", Event("constructor", "early", -1e300, data={"batch": "odd"})),
    ("events/event-0000009999", Event("__proto__", "<b>late</b>", 1e300, data={"batch": ODD})),
    ("jobs/batches/odd", BatchRecord({"operation": "odd", "arguments": {"x": ODD}}, 1e300, 0)),
    ("jobs/batches/early", BatchRecord({"operation": "o", "selection": {"x": ODD}}, -1e300, 0)),
    ("components/fetcher/odd", Component("<b>host</b>", 10**400, "", 1e300)),
    ("components/fetcher/early", Component("early", 1, "", -1e300)),
]


SHOWN = [
    ("", "<b>host</b>"),
    ("", "early"),
    ("events", "<b>late</b>"),
    ("events?kind=constructor", "early"),
    ("batches?id=odd", 'odd, x {"toString":null,"valueOf":null}'),
    ("batches?id=early", "o"),
]


def test_no_page_is_empty_because_of_what_somebody_wrote(
    page: Page, cluster: BrowsedCluster
) -> None:
    with zookeeper_of(cluster) as client:
        for path, record in WRITTEN:
            client.create(f"/pages/{path}", record.encode(), makepath=True)
        for path, shown in SHOWN:
            open_page(page, path)
            expect(row(page, shown)).to_contain_text("unreadable")
        for path, _ in WRITTEN:
            client.delete(f"/pages/{path}")


def test_a_member_is_drained(page: Page, cluster: BrowsedCluster, picture: Picture) -> None:
    drained = next(each for each in cluster.members() if not each["leader"])
    number = drained["number"]
    open_page(page, f"assignment?change=leaves%3D{number}")
    page.locator("#preview").get_by_role("button", name=f"Drain member {number}…").click()
    expect(dialog(page)).to_contain_text(f"Its {drained['slots']} slots move to 1 other member")
    picture(page, "asked")
    dialog(page).get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Clear").click()  # or it may be asked about who is gone
    page.get_by_role("button", name=f"drain member {number}", exact=True).click()
    confirm(page, f"Drain member {number}")
    # its process ends, and whoever watches over it starts another
    open_page(page, "events?kind=drain")
    name = f"{number}-{drained['incarnation']}"
    expect(row(page, f"member {name} was asked to drain")).to_be_visible()
    open_page(page, "events?kind=left")
    expect(row(page, f"member {name} left")).to_be_visible()
    picture(page, "left")


def test_a_killed_scheduler_is_suspect_until_another_has_its_slots(
    page: Page, cluster: BrowsedCluster, faults: Faults, picture: Picture
) -> None:
    killed = next(each for each in cluster.members() if not each["leader"])
    open_page(page, "")
    expect(alert(page, WELL)).to_be_visible()
    faults.kill(killed["pid"])
    expect(alert(page, f"member {killed['number']} does not answer")).to_be_visible()
    expect(alert(page, re.compile(rf"member {killed['number']} .*lease"))).to_be_visible()
    without = f"member {killed['number']} does not answer: throughput is without it"
    expect(page.locator("#missing")).to_contain_text(without)
    picture(page, "suspect")
    expect(alert(page, WELL)).to_be_visible()
    expect(page.locator("#missing")).to_be_hidden()
    picture(page, "again")


def test_without_zookeeper_the_page_says_so_and_shows_what_it_knows(
    page: Page, cluster: BrowsedCluster, picture: Picture, watch: PageWatch
) -> None:
    stray = "/pages/members/note"
    with zookeeper_of(cluster) as client:
        client.create(stray, b"")
    cluster.web.change_project("p0", rate="fast")
    cluster.look()
    open_page(page, "")
    expect(page.locator("#members tbody tr")).to_have_count(2)
    quarantine, unreadable = page.locator("#quarantine"), page.locator("#unreadable")
    expect(quarantine).to_contain_text("rate must be a number")
    expect(unreadable).to_contain_text(stray)
    cluster.zookeeper.stop()
    try:
        missing = page.locator("#missing")
        expect(missing).to_contain_text("ZooKeeper at 127.0.0.1")
        expect(quarantine).to_be_visible()
        expect(unreadable).to_be_visible()
        expect(page.locator("#members tbody tr")).to_have_count(2)
        expect(page.locator("#queues tbody tr")).to_have_count(7)
        expect(page.locator("#freshness")).to_contain_text("partial")
        expect(alert(page, WELL)).to_have_count(0)
        picture(page, "overview")
        page.goto("/cluster/projects")
        expect(missing).to_contain_text("ZooKeeper at 127.0.0.1")
        expect(page.locator("#projects tbody tr")).to_have_count(12)
        expect(page.locator("#projects td[data-label=Owner]").first).to_have_text("\N{EN DASH}")
        page.get_by_label("Search").fill("p1")
        expect(page.locator("#projects tbody tr")).to_have_count(3)
        picture(page, "projects")
        page.get_by_role("button", name="Owner", exact=True).click()
        expect(missing).to_contain_text("Below is the previous data.")
        page.get_by_role("button", name="Clear", exact=True).click()
    finally:
        cluster.zookeeper.start()
    expect(page.locator("#missing")).to_be_hidden()
    expect(page.locator("#projects tbody tr")).to_have_count(12)
    with zookeeper_of(cluster) as client:
        client.delete(stray)
    cluster.web.change_project("p0", rate=10)
    cluster.look()
    forgive(watch, "503")


def test_without_redis_the_page_says_so_and_comes_back(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    open_page(page, "")
    expect(page.locator("#queues tbody tr")).to_have_count(7)
    cluster.redis.stop()
    try:
        expect(page.locator("#missing")).to_contain_text("Redis at 127.0.0.1")
        expect(page.locator("#queues tbody tr")).to_have_count(7)
        expect(page.locator("#members tbody tr")).to_have_count(2)
        picture(page)
    finally:
        cluster.redis.start()
    expect(page.locator("#missing")).to_be_hidden()


def test_a_batch_is_cancelled_while_nobody_works_at_it(
    page: Page, cluster: BrowsedCluster, faults: Faults, picture: Picture, eventually: Eventually
) -> None:
    pids = [each["pid"] for each in cluster.members()]
    for pid in pids:
        faults.suspend(pid)
    try:
        asked = {"operation": "stop", "filter": {"all": True}, "id": "waits"}
        assert page.request.post("/api/v1/batches", data=asked).status == 202
        open_page(page, "batches?id=waits")
        expect(page.locator("#detail h2")).to_have_text("stop: 0 of 12 projects done")
        picture(page)
        page.get_by_role("button", name="Cancel batch").click()
        confirm(page, "Cancel batch")
        expect(page.locator("#detail h2")).to_contain_text("then cancelled")
    finally:
        for pid in pids:
            faults.resume(pid)
    eventually(lambda: cluster.ask("batches/waits")["state"] == "cancelled", within=180)
    assert cluster.ask("batches/waits")["done"] == 0
    statuses = {cluster.web.project(f"p{number}")["status"] for number in range(12)}
    assert statuses == {"RUNNING"}


def test_without_the_web_ui_the_page_says_so(
    page: Page, cluster: BrowsedCluster, watch: PageWatch
) -> None:
    open_page(page, "")
    page.context.set_offline(True)
    expect(page.locator("#missing")).to_contain_text("the web UI itself does not answer")
    expect(page.locator("#members tbody tr")).to_have_count(2)
    expect(page.locator("#freshness")).to_contain_text("partial")
    page.context.set_offline(False)
    expect(page.locator("#missing")).to_be_hidden()
    assert cluster.members()
    forgive(watch, "ERR_INTERNET_DISCONNECTED")
