"""What the pages of the cluster show, in a browser."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.queues.api import Message, SlotQueues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from tests.browser.cluster_page import (
    action,
    check_accessibility,
    check_fits,
    confirm,
    dialog,
    forgive,
    open_page,
    row,
    tick,
)
from tests.browser.conftest import PATIENCE, PLAIN, SCRIPT, BrowsedCluster, PageWatch, Web
from tests.support import waiting
from tests.support.connected import connected

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

PAGES = [
    *("", "steering", "projects", "project?name=news", "failures", "assignment", "batches"),
    *(
        "events",
        "logs",
        "dead-letters",
        "tasks",
        "task?project=news&id=on_start",
        "results?project=news",
    ),
]
PHONE = {"width": 390, "height": 844}

Picture = Callable[..., None]
Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster, site: str) -> Web:
    """Give the web UI of a cluster that has crawled a site."""
    for name in ("news", "shop", "blog"):
        script = SCRIPT.format(site=site)
        cluster.web.add_project(name, status="RUNNING", group="daily", script=script)
    cluster.look()
    cluster.run("news")
    waiting.eventually(lambda: cluster.web.results("news") == 2)
    return cluster.web


@pytest.fixture
def letters(cluster: BrowsedCluster, eventually: Eventually) -> Iterator[SlotQueues]:
    """Make three dead letters, and give the queues."""
    queues = connect(cluster.redis.url, 0, 256).slot_queues
    queues.discard(each.tag for each in queues.dead_letters(queues.dead()))
    bodies = [{"taskid": f"t{n}", "url": "http://x.example/"} for n in range(3)]
    queues.publish([Message(QueueKind.NEWTASK, slot, body) for slot, body in enumerate(bodies)])
    eventually(lambda: queues.dead() == 3)
    yield queues
    queues.discard(each.tag for each in queues.dead_letters(queues.dead()))
    queues.close()


@pytest.fixture
def phone(chromium: Browser, web: Web, watch: PageWatch) -> Iterator[Page]:
    """Give a page as wide as a phone that is set to dark."""
    options = {"viewport": PHONE, "color_scheme": "dark", "reduced_motion": "reduce"}
    with chromium.new_context(base_url=web.url, **options) as context:
        context.on("page", watch.over)
        context.set_default_timeout(PATIENCE)
        yield context.new_page()
    assert (watch.wrong, watch.strangers) == ([], set())


# -- every page ------------------------------------------------------------------------------


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible_in_light_and_dark(
    page: Page, picture: Picture, path: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_page(page, path)
    expect(page.locator("nav [aria-current=page]")).to_have_count(1)
    for theme in ("light", "dark"):
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        check_accessibility(page)
        check_fits(page)
        picture(page, f"{path or 'overview'}-{width}-{theme}")
        page.locator("#theme").click()


@pytest.mark.usefixtures("letters")
def test_no_link_of_a_page_leads_nowhere(page: Page) -> None:
    found = {}
    for path in PAGES:
        open_page(page, path)
        links = page.locator("a[href]").evaluate_all("each => each.map((one) => one.href)")
        found.update(dict.fromkeys(links, path))
    assert any("/cluster/project?" in link for link in found)
    dead = [(link, path) for link, path in found.items() if not page.request.get(link).ok]
    assert dead == []


@pytest.mark.parametrize("width", [390, 768])
def test_the_whole_navigation_is_seen(page: Page, width: int, picture: Picture) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_page(page, "tasks")
    for link in page.locator("nav a").all():
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    picture(page, str(width))


def test_a_phone_can_sort(phone: Page, picture: Picture) -> None:
    open_page(phone, "projects")
    expect(phone.locator("html")).to_have_attribute("data-theme", "dark")
    phone.get_by_label("Sort by").select_option("Project, descending")
    projects = phone.request.get("/api/v1/projects").json()["items"]
    names = sorted((each["name"] for each in projects), reverse=True)
    expect(phone.locator("#projects tbody td.first")).to_have_text(names)
    picture(phone)
    phone.reload()
    expect(phone.get_by_label("Sort by")).to_have_value("-name")


def test_the_chosen_theme_stays(page: Page) -> None:
    open_page(page, "")
    page.get_by_role("button", name="Dark").click()
    page.get_by_role("link", name="Projects").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("path", ["/cluster/", "/cluster/static/table.js", "/api/v1/overview"])
def test_answers_forbid_what_does_not_come_from_here(page: Page, path: str) -> None:
    headers = page.request.get(path).headers
    policy = headers["content-security-policy"]
    assert {"default-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_a_paused_page_stays_as_it_is_and_says_so(page: Page, cluster: BrowsedCluster) -> None:
    open_page(page, "projects?q=late")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#freshness")).to_have_text(re.compile(r"paused · \d+ s old"))
    cluster.web.add_project("late")
    expect(page.locator("#freshness")).to_have_text(re.compile(r"paused · ([3-9]|[1-5]\d) s old"))
    expect(page.locator("#projects tbody tr")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#projects tbody tr")).to_have_count(1)


SLOW = """
    window.asked = [];
    window.really = fetch;
    window.fetch = async (url, request) => {
      if (!url.includes("/%s")) return really(url, request);
      asked.push(Date.now());
      throw new DOMException("", "TimeoutError");
    };
"""


def test_what_answers_too_late_is_asked_ever_less_often_until_it_answers(page: Page) -> None:
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.add_init_script(SLOW % "overview")
    page.goto("/cluster/")
    expect(page.locator("#missing")).to_contain_text("the web UI does not answer in time")
    page.clock.run_for(200_000)
    asked = page.evaluate("asked.map((at) => (at - asked[0]) / 1000)")
    assert asked == [0, 4, 12, 28, 60, 120, 180]
    page.evaluate("() => { fetch = really; }")
    page.clock.run_for(40_000)
    expect(page.locator("#missing")).to_be_hidden()
    with page.expect_request("**/api/v1/overview"):
        page.clock.run_for(2000)


def test_a_history_that_comes_too_late_is_asked_for_again_in_a_minute(
    page: Page, eventually: Eventually
) -> None:
    page.clock.install()
    page.add_init_script(SLOW % "history")
    page.goto("/cluster/?span=day")
    expect(page.locator("#missing")).to_contain_text("the history: the web UI does not answer")
    expect(page.locator("#chart")).to_contain_text("Not known.")
    with page.expect_response("**/api/v1/overview"):
        page.clock.run_for(2000)
    assert page.evaluate("asked.length") == 1
    page.clock.run_for(60_000)
    eventually(lambda: page.evaluate("asked.length") > 1)


def test_whoever_returns_to_a_page_sees_what_it_knows_until_it_is_old(page: Page) -> None:
    asked: list[str] = []

    def left_meanwhile(route: Route) -> None:
        look(page, hidden=True)
        look(page, hidden=False)
        route.continue_()

    page.clock.install()
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/api/v1/results?*", left_meanwhile, times=1)
    page.goto("/cluster/results?project=news")
    expect(page.locator("#results tbody tr")).to_have_count(2)
    look(page, hidden=False)
    look(page, hidden=True)
    page.clock.run_for(60_000)
    page.evaluate("fetch('/api/v1/settings').then(() => null)")  # comes after what was asked
    assert sum("/api/v1/results" in url for url in asked) == 1
    with page.expect_request("**/api/v1/results?*"):
        look(page, hidden=False)


def look(page: Page, *, hidden: bool) -> None:
    """Turn to the page's tab, or away from it."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def change(page: Page, path: str, how: Callable[[dict[str, Any], int], None]) -> None:
    """Let a page see answers of the API that differ from one another."""
    numbers = count(1)

    def altered(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        how(found, next(numbers))
        route.fulfill(response=answer, json=found)

    page.route(f"**/api/v1/{path}", altered)


def test_a_batch_at_work_keeps_presses_and_focus(page: Page) -> None:
    page.request.post(
        "/api/v1/batches", data={"operation": "run", "names": ["blog"], "id": "ticks"}
    )

    done = [1]

    def further(found: dict[str, Any], _: int) -> None:
        ticks = next(each for each in found["items"] if each["id"] == "ticks")
        ticks |= {"state": "running", "total": 99, "done": done[-1], "failed": 1}
        ticks["errors"] = {"blog": "no reason"}

    change(page, "batches?*", further)
    open_page(page, "batches?id=ticks")
    title = page.locator("#detail h2")
    link = page.locator("#detail").get_by_role("link", name="blog")
    expect(title).to_contain_text("run: 1 of 99")
    link.focus()
    done.append(2)
    expect(title).to_contain_text("run: 2 of 99")
    expect(link).to_be_focused()
    page.locator("#detail").get_by_role("button", name="Cancel batch").hover()
    page.mouse.down()
    done.append(3)
    expect(title).to_contain_text("run: 3 of 99")
    page.mouse.up()
    expect(dialog(page)).to_contain_text("Cancel this batch?")
    heard = page.locator("#detail").locator("css=[aria-live], [role=status]")
    assert heard.all_inner_texts() == ["running"]


def test_the_page_says_that_a_batch_is_being_cancelled(page: Page, picture: Picture) -> None:
    page.request.post(
        "/api/v1/batches", data={"operation": "run", "names": ["blog"], "id": "ticks"}
    )

    def runs_on(found: dict[str, Any], _: int) -> None:
        ticks = next(each for each in found["items"] if each["id"] == "ticks")
        ticks |= {"state": "running", "total": 99, "done": 3, "failed": 0}

    change(page, "batches?*", runs_on)
    sent: list[Route] = []
    page.route("**/api/v1/batches/ticks", lambda route: sent.append(route))
    open_page(page, "batches?id=ticks")
    page.locator("#detail").get_by_role("button", name="Cancel batch").click()
    dialog(page).get_by_role("button", name="Cancel batch").click()
    expect(dialog(page).get_by_role("button", name="Cancelling…")).to_be_disabled()
    picture(page)
    (request,) = sent
    request.continue_()
    expect(dialog(page)).to_have_count(0)
    expect(page.locator("#detail").get_by_role("button", name="Cancelling…")).to_be_disabled()


def test_a_batch_that_is_chosen_is_led_to(page: Page) -> None:
    page.request.post("/api/v1/batches", data={"operation": "run", "names": ["blog"]})
    page.set_viewport_size({"width": 1280, "height": 200})
    open_page(page, "batches")
    last = page.locator("#batches tbody button").last
    last.click()
    title = page.locator("#detail h2")
    expect(title).to_be_focused()
    expect(title).to_be_in_viewport()
    page.locator("#detail").get_by_role("button", name="Close").click()
    expect(page.locator("#detail")).to_be_hidden()
    expect(last).to_be_focused()


def test_a_press_on_next_outlives_a_list_that_grows(page: Page) -> None:
    change(page, "workload?*", lambda found, n: found.update(total=100 + n))
    open_page(page, "projects")
    page.get_by_role("button", name="Next", exact=True).hover()
    page.mouse.down()
    expect(page.locator("#pager")).to_contain_text(re.compile(r"of 1(0[2-9]|[1-9]\d)"))
    page.mouse.up()
    expect(page).to_have_url(re.compile("offset=50$"))


@pytest.mark.parametrize("used", [Locator.hover, lambda each: each.press("Shift")])
def test_rows_that_somebody_uses_keep_their_places(
    page: Page, used: Callable[[Locator], None]
) -> None:
    turned: list[bool] = []

    def turn(found: dict[str, Any], _: int) -> None:
        found["items"].sort(key=lambda each: each["name"], reverse=bool(turned))
        if turned:
            found["items"][0]["name"] = "new"

    change(page, "workload?*", turn)
    open_page(page, "projects")
    names = page.locator("#projects tbody td.first")
    *rest, last = names.all_inner_texts()
    run = page.get_by_role("button", name=f"run {rest[0]}", exact=True)
    used(run)
    turned.append(True)
    expect(names).to_have_text([*rest, "new"])
    page.get_by_label("Search").focus()
    page.get_by_label("Search").hover()
    expect(names).to_have_text(["new", *reversed(rest)])
    assert last not in names.all_inner_texts()


def test_a_row_that_moves_keeps_the_focus(page: Page) -> None:
    turned: list[bool] = []

    def turn(found: dict[str, Any], _: int) -> None:
        found["items"].sort(key=lambda each: each["name"], reverse=bool(turned))

    change(page, "workload?*", turn)
    open_page(page, "projects")
    names = page.locator("#projects tbody td.first")
    before = names.all_inner_texts()
    box = page.get_by_role("checkbox", name=f"select {before[-1]}", exact=True)
    box.click()
    page.get_by_label("Search").hover()
    turned.append(True)
    expect(names).to_have_text(before[::-1])
    expect(box).to_be_focused()


def test_a_page_behind_the_lists_end_leads_to_the_first(page: Page) -> None:
    open_page(page, "projects?offset=5000")
    expect(page.locator("#pager")).to_contain_text("1 to")
    expect(page).to_have_url(re.compile("/projects$"))


@pytest.mark.parametrize(("failed", "typed"), [(1, "blog"), (2, "2")])
def test_deleting_is_retried_only_once_it_is_typed(
    page: Page, failed: int, typed: str, picture: Picture
) -> None:
    page.request.post(
        "/api/v1/batches", data={"operation": "run", "names": ["blog"], "id": "ticks"}
    )

    def failing(found: dict[str, Any], _: int) -> None:
        ticks = next(each for each in found["items"] if each["id"] == "ticks")
        ticks |= {"state": "failed", "operation": "delete", "failed": failed}
        ticks["errors"] = {"blog": "no reason", "shop": "no reason"} if failed > 1 else {"blog": ""}

    change(page, "batches?*", failing)
    open_page(page, "batches?id=ticks")
    page.get_by_role("button", name=f"Retry {failed} failed project{'s' * (failed > 1)}").click()
    expect(dialog(page)).to_contain_text("This cannot be undone.")
    expect(dialog(page).get_by_role("button", name="Retry")).to_be_disabled()
    dialog(page).get_by_label(f"Type {typed} to confirm").fill(typed)
    expect(dialog(page).get_by_role("button", name="Retry")).to_be_enabled()
    picture(page)


def test_an_alert_whose_seconds_run_stays_and_is_told_once(page: Page) -> None:
    ages = [1]

    def further(found: dict[str, Any], _: int) -> None:
        told = (f"no renewal for {ages[-1]}.5 s", f"{ages[-1]} dead letters")
        found["alerts"] = [
            {"kind": "suspect-member", "severity": "warning", "text": told[0]},
            {"kind": "dead-letters", "severity": "warning", "text": told[1]},
        ]

    change(page, "overview", further)
    open_page(page, "")
    link = page.get_by_role("link", name="Show them")
    link.focus()
    for age in (2, 3):
        ages.append(age)
        expect(page.locator("#alerts")).to_contain_text(f"no renewal for {age}.5 s")
    expect(link).to_be_focused()
    expect(page.locator("#alerts [aria-live], #alerts[aria-live]")).to_have_count(0)
    expect(page.locator("#alerts-heard")).to_have_text("no renewal for 1.5 s; 1 dead letters")


def test_how_long_ago_is_told_by_the_web_uis_clock(page: Page) -> None:
    page.clock.set_fixed_time("2099-01-01")

    def waits(found: dict[str, Any], _: int) -> None:
        for place, each in enumerate(found["items"]):
            times = {"due_since": found["at"] - 10 - place, "next_due": found["at"] + 5}
            each["numbers"] = {**(each["numbers"] or {}), **times}

    change(page, "workload?*", waits)
    open_page(page, "projects?sort=name")
    ages = page.locator("td[data-label='Oldest due']").all_inner_texts()
    assert len(ages) > 1
    assert ages == [f"{10 + place} s" for place in range(len(ages))]
    assert set(page.locator("td[data-label='Next due']").all_inner_texts()) == {"in 5 s"}
    open_page(page, "events?kind=joined&within=3600")
    expect(page.locator("#events tbody tr").first).to_be_visible()
    open_page(page, "")
    for up in page.locator("td[data-label=Up]").all_inner_texts():
        assert re.fullmatch(r"\d+ (s|min)", up)


def test_upwards_the_oldest_due_is_the_one_that_waits_least(page: Page) -> None:
    open_page(page, "projects")
    head = page.get_by_role("button", name="Oldest due", exact=True)
    for order, sort in (("ascending", "-due_since"), ("descending", "due_since")):
        with page.expect_response(f"**/api/v1/workload?*sort={sort}&*"):
            head.click()
        expect(page.locator(f"th[aria-sort={order}]")).to_have_text("Oldest due")


def test_a_preview_follows_what_happens(page: Page) -> None:
    drains: list[int] = []

    def draining(found: dict[str, Any], _: int) -> None:
        for each in found["members"]:
            each["draining"] = each["number"] in drains
        found["epoch"] += len(drains)

    def moved(found: dict[str, Any], _: int) -> None:
        if drains:
            found |= {"total": 0, "pairs": [], "items": []}

    change(page, "assignment", draining)
    change(page, "assignment/preview?*", moved)
    open_page(page, "assignment?change=leaves%3D1")
    expect(page.locator("#map .would-move").first).to_be_visible()
    expect(page.locator("#preview button")).to_have_text("Drain member 1…")
    drains.append(1)
    expect(page.locator("#preview")).to_have_text("Nothing would move.")
    expect(page.locator("#map .would-move")).to_have_count(0)
    expect(page.locator("#preview button")).to_have_count(0)


def test_what_is_known_of_a_slot_is_reachable_by_keys_and_by_touch(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_page(page, "assignment?slot=7")
    assert sum("/api/v1/assignment" in url for url in asked) == 1
    told = page.locator("#slot-text")
    expect(told).to_have_text(re.compile(r"^member \d, epoch \d+$"))
    page.get_by_label("Slot", exact=True).press("ArrowUp")
    expect(page).to_have_url(re.compile("slot=8$"))
    page.locator("#map .slot").nth(9).click()
    expect(page.get_by_label("Slot", exact=True)).to_have_value("9")
    page.get_by_label("Slot", exact=True).fill("999")
    expect(told).to_have_text("there are slots 0 to 255")


def test_all_is_well_though_the_history_is_not_known(page: Page) -> None:
    change(page, "overview", lambda found, _: found.update(alerts=[], missing=[]))
    change(page, "events/archive?*", lambda found, _: found.update(missing=["it is away"]))
    page.goto("/cluster/?span=day")
    expect(page.locator("#missing")).to_contain_text("it is away")
    expect(page.locator("#alerts")).to_have_text("All is well.")


def test_the_latest_tries_stay_while_no_scheduler_answers(page: Page) -> None:
    away: list[str] = []

    def answered(found: dict[str, Any], _: int) -> None:
        if away:
            found |= {"items": [], "missing": away}

    change(page, "tries?*", answered)
    open_page(page, "tasks?project=news")
    tries = page.locator("#tries tbody tr")
    before = tries.count()
    assert before
    away.append("no scheduler can be reached")
    missing = page.locator("#missing")
    expect(missing).to_have_text(
        "Missing: no scheduler can be reached. Below is the last known data."
    )
    expect(tries).to_have_count(before)
    page.get_by_label("Project").fill("nothing")
    expect(missing).to_contain_text("Below is the previous data.")
    expect(page.locator("#empty")).to_be_hidden()
    away.clear()
    expect(page.locator("#empty")).to_be_visible()


# -- single pages ----------------------------------------------------------------------------


def test_the_overview_shows_what_the_api_tells(
    page: Page, cluster: BrowsedCluster, picture: Picture, eventually: Eventually
) -> None:
    page.request.post(
        "/api/v1/batches", data={"operation": "restart", "filter": {"group": "daily"}}
    )
    eventually(lambda: sum((cluster.ask("overview")["throughput"] or {}).get("success", [])) >= 9)
    open_page(page, "")
    expect(page.locator("#chart .key.success")).to_have_text(re.compile(r"succeeded \d+"))
    told = eventually(lambda: (found := cluster.ask("overview"))["missing"] == [] and found)
    expect(page.locator("#members tbody tr")).to_have_count(2)
    expect(page.locator("#members .badge.accent")).to_have_text("leader")
    tiles = dict(
        zip(
            page.locator("#tiles dt").all_inner_texts(),
            page.locator("#tiles dd").all_inner_texts(),
            strict=True,
        )
    )
    assert tiles["Members"] == "2"
    assert tiles["Leader"] == f"member {told['leader']}"
    assert (tiles["Slots"], tiles["Without owner"]) == ("256", "0")
    expect(page.locator("#components tbody tr")).to_have_count(4)
    picture(page)


def test_projects_show_their_owners_numbers(
    page: Page, cluster: BrowsedCluster, eventually: Eventually
) -> None:
    def numbers() -> dict[str, int]:
        return cluster.ask("workload?pattern=shop")["items"][0]["numbers"] or {}

    asked = {"operation": "restart", "names": ["shop"], "id": "anew"}
    page.request.post("/api/v1/batches", data=asked)
    eventually(lambda: cluster.ask("batches/anew")["state"] == "done")
    eventually(lambda: numbers().get("success", 0) >= 3 and numbers().get("pending") == 0)
    open_page(page, "projects?q=shop")
    success = page.locator("#projects tbody tr td[data-label=Success]")
    eventually(lambda: success.inner_text() == str(numbers().get("success")))
    expect(page.locator("#projects .sparkline")).to_have_attribute(
        "aria-label", re.compile(r"\d+ in the last hour")
    )


def test_the_day_of_a_project_shows_what_was_crawled(
    page: Page, cluster: BrowsedCluster, picture: Picture, eventually: Eventually
) -> None:
    def crawled() -> int:
        return sum(cluster.ask("history?project=shop")["success"])

    page.request.post("/api/v1/batches", data={"operation": "restart", "names": ["shop"]})
    eventually(lambda: crawled() >= 3, within=180)  # it is added once a minute
    open_page(page, "project?name=shop")
    page.get_by_role("button", name="Day", exact=True).click()
    expect(page.locator("#chart svg")).to_have_attribute("aria-label", re.compile("in a day$"))
    assert int(page.locator("#chart .key.success").inner_text().split()[1]) >= 3
    expect(page).to_have_url(re.compile(r"name=shop&span=day$"))
    step = page.get_by_role("slider", name="step of the chart")
    expect(page.locator("#chart .figures")).to_have_text(re.compile(r", 1 h 0 min: \d+ succeeded;"))
    step.press("Home")
    expect(page.locator("#chart .figures")).to_contain_text(": 0 succeeded; 0 retried; 0 failed")
    step.press("End")
    page.locator("#chart svg").hover(position={"x": 1, "y": 50})
    assert step.input_value() == "0"
    check_accessibility(page)
    picture(page, "project")

    open_page(page, "?span=fortnight")
    expect(page.get_by_role("button", name="Two weeks")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#chart .key.mark-joined")).to_have_text("joined")
    page.set_viewport_size({"width": 390, "height": 844})
    check_fits(page)
    picture(page, "overview")


def test_a_choice_outlives_an_update_of_the_page(page: Page) -> None:
    page.clock.install()  # a choice is taken some moments later
    open_page(page, "events")
    expect(page.locator("#events tbody .badge", has_text="joined")).to_have_count(2)
    page.get_by_label("Kind").select_option("joined")
    with page.expect_response("**/api/v1/events/archive?*"):
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").click()
    page.clock.run_for(1000)
    expect(page.locator("#events tbody tr")).to_have_count(2)


def test_events_are_filtered_by_kind_and_text(page: Page, picture: Picture) -> None:
    page.request.post("/api/v1/batches", data={"operation": "run", "names": ["blog"]})
    open_page(page, "events")
    expect(page.locator("#events tbody .badge", has_text="joined")).to_have_count(2)
    page.get_by_label("Kind").select_option("joined")
    expect(page.locator("#events tbody tr")).to_have_count(2)
    picture(page)
    page.get_by_label("Text").fill("member 1-")
    expect(page.locator("#events tbody tr")).to_have_count(1)
    assert "kind=joined" in page.url
    page.reload()
    expect(page.locator("#events tbody tr")).to_have_count(1)
    page.get_by_label("Text").fill("no such thing")
    expect(page.locator("#empty")).to_be_visible()


def test_an_order_is_found_by_who_gave_it_among_the_orders_and_exported(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    settings = Settings(hosts=cluster.zookeeper.address, root="/pages")
    with connected(settings) as connection:
        orders = Orders(connection, Tree(settings.root), "ann@desk")
        for delay in (70, None):
            orders.set({"restart_delay": delay})
    open_page(page, "events?group=scripts&who=ANN%40")
    expect(page.locator("#empty")).to_be_visible()
    page.get_by_label("Group").select_option("orders")
    expect(row(page, "restart_delay set to 70")).to_contain_text("ann@desk")
    expect(page.locator("#events tbody tr")).to_have_count(2)
    picture(page)
    with page.expect_download() as export:
        page.get_by_role("link", name="Export").click()
    lines = export.value.path().read_text("utf-8-sig").splitlines()
    assert ["restart_delay unset" in each for each in lines] == [False, True, False]


def test_an_event_leads_to_its_batch(page: Page) -> None:
    asked = {"operation": "run", "names": ["blog"], "id": "led_to"}
    page.request.post("/api/v1/batches", data=asked)
    open_page(page, "events?kind=batch&q=led_to")
    page.locator("#events summary").first.click()
    page.get_by_role("link", name="the batch").first.click()
    expect(page.locator("#detail dd").first).to_have_text("led_to")


def test_a_warning_of_a_scheduler_is_found_by_its_project_and_text(
    phone: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.web.add_project("vanishes", status="RUNNING")
    cluster.look()
    open_page(phone, "project?name=vanishes")
    cluster.web.drop_project("vanishes")
    cluster.look()
    phone.get_by_role("link", name="Logs", exact=True).last.click()
    phone.wait_for_url("**/logs?project=vanishes")  # until it is loaded, and takes what is typed
    phone.get_by_label("Text").fill("GONE")
    expect(phone).to_have_url(re.compile("project=vanishes&q=GONE"))
    line = phone.locator("#lines tbody tr").first
    expect(line).to_contain_text("scheduler")
    expect(line.locator(".badge.warn")).to_have_text("warning")
    check_fits(phone)
    check_accessibility(phone)
    picture(phone)
    phone.get_by_label("Component").select_option("webui")
    expect(phone.locator("#empty")).to_be_visible()


def test_what_fails_is_found_understood_and_fetched_again(
    page: Page, cluster: BrowsedCluster, site: str, picture: Picture, eventually: Eventually
) -> None:
    script = SCRIPT.format(site=site)
    broken = script.replace("'title': ", "'title': response.json['title'] or ")
    broken = broken.replace("    def on_start", "    retry_delay = {'': -1}\n\n    def on_start")
    cluster.web.add_project("faulty", status="RUNNING", script=broken)
    cluster.look()
    page.request.post("/api/v1/batches", data={"operation": "run", "names": ["faulty"]})

    open_page(page, "")
    page.get_by_role("link", name="Failures").click()
    kind = page.get_by_role("button", name=re.compile("^TypeError: 'NoneType' object"), exact=False)
    expect(kind).to_be_visible()
    page.get_by_label("Project").fill("faulty")
    expect(page.locator("#kinds tbody tr")).to_have_count(1)
    expect(page.locator("#kinds tbody tr td[data-label=Tasks]")).to_have_text("2")
    expect(page.locator("#kinds tbody tr td[data-label=Callback]")).to_have_text("detail_page")
    kind.click()
    expect(page.locator("#tasks tbody tr")).to_have_count(2)
    page.locator("#tasks summary").first.click()
    expect(page.locator("#tasks pre").first).to_contain_text("response.json['title']")
    picture(page)
    page.get_by_label("URL").fill("/ONE")
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    page.get_by_role("button", name=re.compile("^fetch all tasks again")).click()
    expect(dialog(page)).to_contain_text("Fetch 1 task of 1 project again?")
    page.keyboard.press("Escape")
    page.get_by_label("URL").fill("")
    page.get_by_label("Error", exact=True).fill("nonetype")
    expect(page.locator("#tasks tbody tr")).to_have_count(2)

    cluster.web.change_project("faulty", script=script)
    cluster.look()
    page.get_by_role("button", name=re.compile("^fetch all tasks again")).click()
    expect(dialog(page)).to_contain_text("Fetch 2 tasks of 1 project again?")
    confirm(page, "Fetch again")
    expect(page.locator("#batch")).to_contain_text("refetch: 1 of 1 project done")
    expect(page.locator("#empty")).to_have_text("No failure matches.")
    eventually(lambda: cluster.web.results("faulty") == 2)


def test_why_a_project_cannot_start_is_told(page: Page, cluster: BrowsedCluster) -> None:
    cluster.web.add_project("misspelt", status="RUNNING", script="class Handler(:")
    cluster.look()
    open_page(page, "projects?q=misspelt")
    expect(row(page, "misspelt")).to_contain_text("cannot start")
    row(page, "misspelt").get_by_role("link", name="misspelt").click()
    expect(page.locator("#alerts")).to_contain_text("its script does not run: SyntaxError")
    open_page(page, "")
    expect(page.locator("#alerts")).to_contain_text("for the scripts do not run: misspelt")
    cluster.web.change_project("misspelt", script=PLAIN)
    cluster.look()
    open_page(page, "projects?q=misspelt")
    expect(row(page, "misspelt")).not_to_contain_text("cannot start")


def test_a_task_is_found_by_a_part_of_its_url(
    page: Page, cluster: BrowsedCluster, site: str, picture: Picture
) -> None:
    cluster.web.add_project("sought", status="RUNNING", script=SCRIPT.format(site=site))
    cluster.look()
    page.request.post("/api/v1/batches", data={"operation": "run", "names": ["sought"]})
    open_page(page, "tasks?project=sought")
    expect(page.locator("#tries tbody tr")).to_have_count(5)
    page.get_by_label("URL or id").fill("/ONE")
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    expect(page.locator("#progress")).to_contain_text("1 of 1 project done; that is all")
    expect(page.locator("#tries")).to_be_hidden()
    assert "url=%2FONE" in page.url
    picture(page)
    page.get_by_label("State").select_option("FAILED")
    expect(page.locator("#progress")).to_contain_text("0 found")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#tries tbody tr").first).to_be_visible()
    page.get_by_label("Project").fill("sought")
    page.get_by_label("URL or id").fill(f"{site}/one")
    page.locator("#tasks").get_by_role("link", name=f"{site}/one").click()
    expect(page.locator("#tiles")).to_contain_text("detail_page")


def test_the_latest_tries_lead_to_a_task_and_all_that_is_known_of_it(
    page: Page, cluster: BrowsedCluster, site: str, picture: Picture
) -> None:
    script = SCRIPT.format(site=site).replace(
        "    def on_st", "    retry_delay = {'': -1}\n\n    def on_st"
    )
    script = script.replace("return", "assert 'one' not in response.url, '<b>one</b>'; return")
    cluster.web.add_project("told", status="RUNNING", script=script)
    cluster.look()
    page.request.post("/api/v1/batches", data={"operation": "run", "names": ["told"]})
    page.goto("/tasks?project=told")
    expect(page.locator("#tries tbody tr")).to_have_count(5)  # with on_finished
    picture(page, "tasks")
    row(page, f"{site}/one").get_by_role("link").last.click()
    expect(page.locator("#tiles")).to_contain_text("detail_page")
    expect(page.locator("#alerts")).to_contain_text("AssertionError: <b>one</b>")
    expect(page.locator("#log")).to_contain_text("Traceback")
    expect(page.locator("#url")).to_have_attribute("href", f"{site}/one")
    page.get_by_text("track", exact=True).click()
    expect(page.locator("#documents details[open] pre")).to_contain_text('"exception"')
    picture(page, "failed")

    cluster.web.change_project("told", script=SCRIPT.format(site=site))
    cluster.look()
    page.get_by_role("button", name="Fetch again").click()
    confirm(page, "Fetch again")
    expect(page.locator("#tiles")).to_contain_text("SUCCESS")
    expect(page.locator("#documents details[open] pre")).to_contain_text("page /one")
    expect(page.locator("#alerts li")).to_have_count(0)
    page.get_by_role("link", name="Open it in the editor").click()
    expect(page).to_have_title("told - Editor - cluster - pyspider")


@pytest.mark.parametrize(
    ("name", "words"),
    [("halted", "until its project runs: it is STOP"), ("gone", "there is no project gone")],
)
def test_a_task_says_what_it_waits_for(page: Page, web: Web, name: str, words: str) -> None:
    if name == "halted":
        web.add_project(name, status="STOP")
    web.add_task(name, "t", {"url": "javascript:alert(1)", "status": 1, "schedule": {}})
    open_page(page, f"task?project={name}&id=t")
    expect(page.locator("#alerts")).to_contain_text(words)
    expect(page.locator("#url")).to_have_text("javascript:alert(1)")
    assert page.locator("#url").get_attribute("href") is None


def test_a_task_that_there_is_not_is_told(page: Page, web: Web, watch: PageWatch) -> None:
    page.goto("/task/news:nothing")
    expect(page.locator("#unknown")).to_contain_text("project 'news' has no task 'nothing'")
    page.goto(web.url)
    forgive(watch, "404")


def test_results_are_listed_and_lead_to_their_tasks(
    page: Page, cluster: BrowsedCluster, site: str, picture: Picture, eventually: Eventually
) -> None:
    cluster.web.add_project("kept", status="RUNNING", script=SCRIPT.format(site=site))
    cluster.look()
    page.request.post("/api/v1/batches", data={"operation": "run", "names": ["kept"]})
    eventually(lambda: cluster.web.results("kept") == 2)
    page.goto("/results?project=kept")
    expect(page.locator("#results tbody tr")).to_have_count(2)
    expect(page.locator("#results thead")).to_contain_text("title")
    expect(page.locator("#results")).to_contain_text("page /two")
    expect(page.get_by_role("link", name="CSV")).to_have_attribute(
        "href", "/results/dump/kept.csv?style=spreadsheet"
    )
    picture(page)
    page.get_by_role("link", name=f"{site}/two").click()
    expect(page.locator("#documents details[open] pre")).to_contain_text("page /two")


def test_the_tasks_of_a_kind_are_paged(page: Page, cluster: BrowsedCluster) -> None:
    cluster.web.add_failures("news", "KeyError: 'paged'", *(f"t{n:02}" for n in range(30)))
    open_page(page, "failures")
    page.get_by_role("button", name="KeyError: 'paged'", exact=True).click()
    tasks, latest = page.locator("#tasks tbody tr"), page.get_by_role("button", name="Latest")
    expect(tasks).to_have_count(25)
    expect(tasks.first).to_contain_text("/t29")
    expect(latest).to_be_disabled()
    page.get_by_role("button", name="Older").click()
    expect(tasks).to_have_count(5)
    latest.click()
    expect(tasks.first).to_contain_text("/t29")


def test_a_kind_without_a_callback_is_fetched_again_without_others(page: Page, web: Web) -> None:
    web.add_failures("shop", "HTTP 599: alike", "a", "b", "c")
    web.add_failures("shop", "HTTP 599: alike", "x", callback="")
    open_page(page, "failures?project=shop")
    alone = page.locator("#kinds tbody tr").last
    expect(alone.locator("td[data-label=Callback]")).to_have_text("\N{EN DASH}")
    alone.get_by_role("button", name="HTTP 599: alike", exact=True).click()
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    with page.expect_request("**/api/v1/batches") as planned:
        alone.get_by_role("button", name="fetch all tasks again").click()
    expect(dialog(page)).to_contain_text("Fetch 1 task of 1 project again?")
    assert planned.value.post_data_json["arguments"]["callback"] == ""


def test_a_projects_page_has_all_of_it(
    page: Page, cluster: BrowsedCluster, site: str, picture: Picture
) -> None:
    script = SCRIPT.format(site=site).replace("return", "assert 'one' not in response.url; return")
    cluster.web.add_project("mixed", status="STOP", script=script, rate=7, group="weekly")
    open_page(page, "projects?q=mixed")
    row(page, "mixed").get_by_role("link", name="mixed").click()
    expect(page.get_by_role("heading", name="mixed")).to_be_visible()
    expect(page.locator("#tiles")).to_contain_text("STOP")
    page.get_by_role("button", name="Start", exact=True).click()
    confirm(page, "Start 1 project")
    expect(page.locator("#tiles")).to_contain_text("RUNNING")
    failing = page.get_by_role("link", name=re.compile("^AssertionError"))
    expect(failing).to_be_visible()
    expect(page.locator("#tries .badge.good").first).to_be_visible()
    expect(page.locator("#tries .badge.bad")).to_have_count(1)
    picture(page)
    page.get_by_text("Show the script").click()
    expect(page.locator("#script")).to_contain_text("assert 'one' not in response.url")

    page.get_by_role("button", name="Rate").click()
    dialog(page).get_by_label("Tasks per second").fill("9")
    dialog(page).get_by_role("button", name="Continue").click()
    confirm(page, "Set the rate of 1 project")
    expect(page.locator("#tiles")).to_contain_text("/ 9")
    failing.click()
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    assert "project=mixed" in page.url


ENDED = {"at": 1e9, "project": "away", "taskid": "t", "url": "http://x/", "ok": True}
ENDED |= {"status_code": 200, "fetch_time": 1, "process_time": 1, "follows": 0}


def test_a_source_that_is_away_takes_nothing_else_from_a_projects_page(
    page: Page, web: Web, watch: PageWatch
) -> None:
    web.add_project("away", status="STOP")
    web.add_failures("away", "KeyError: 'away'", "t")
    script = {"script": f"{PLAIN}# saved"}
    assert page.request.put("/api/v1/projects/away/script", data=script).ok
    sources = re.compile("/api/v1/(failures|projects/away/)")
    tries: dict[str, Any] = {"items": [ENDED], "missing": []}
    page.route("**/api/v1/tries?*", lambda route: route.fulfill(json=tries))

    def fail(route: Route) -> None:
        route.fulfill(status=503, json={"detail": "no database"})

    page.route(sources, fail)
    page.goto("/cluster/project?name=away")
    expect(page.locator("#missing")).to_have_text(
        "Missing: no database. Below is the last known data."
    )
    expect(page.locator("#tiles")).to_contain_text("STOP")
    expect(page.locator("#tries tbody tr")).to_have_count(1)
    expect(page.locator("#no-versions")).to_be_hidden()

    page.unroute(sources)
    expect(page.locator("#versions tbody tr")).to_have_count(2)
    expect(page.locator("#script")).to_contain_text("# saved")
    expect(page.locator("#failures tbody tr")).to_have_count(1)
    tries |= {"items": [], "missing": ["member 9 does not answer"]}
    page.route(sources, fail)
    expect(page.locator("#missing")).to_contain_text("member 9 does not answer; no database")
    for rows in ("#tries", "#failures"):
        expect(page.locator(f"{rows} tbody tr")).to_have_count(1)
    expect(page.locator("#versions tbody tr")).to_have_count(2)
    forgive(watch, "503")


NO_TRY = dict.fromkeys(("crawled_at", "due_at", "retried", "retries", "status_code", "follows"))
WAITING = {**NO_TRY, "url": "u", "state": "ACTIVE", "callback": "", "fetch_time": None}
WAITING |= {"process_time": None, "priority": None, "error": "", "logs": "", "documents": {}}


@pytest.mark.parametrize("name", ["a[1]", "b*?", "c/d"])
def test_a_project_of_any_name_has_its_page(
    page: Page, web: Web, watch: PageWatch, name: str
) -> None:
    web.add_project(name)
    page.goto(f"/cluster/project?name={quote(name, safe='')}")
    expect(page.locator("#tiles")).to_contain_text("TODO")
    page.route("**/api/v1/task?*", lambda route: route.fulfill(json=WAITING))
    page.goto(f"/cluster/task?id=t&project={quote(name, safe='')}")
    expect(page.locator("#alerts")).to_contain_text("until its project runs: it is TODO")
    web.drop_project(name)
    watch.wrong.clear()  # no route has a slash in a name


def test_dead_letters_are_shown_and_dropped(
    page: Page, letters: SlotQueues, picture: Picture
) -> None:
    open_page(page, "dead-letters")
    expect(page.locator("#letters tbody tr")).to_have_count(3)
    expect(page.locator("#letters")).to_contain_text("a task needs project")
    newest = letters.dead_letters(1)[0].tag
    tick(page, newest)
    picture(page)
    action(page, "Drop").click()
    confirm(page, "Drop 1 dead letter")
    expect(page.locator("#notice")).to_have_text("1 dead letter dropped.")
    expect(page.locator("#letters tbody tr")).to_have_count(2)
    assert letters.dead() == 2
    page.get_by_role("button", name="select all 2 that match").click()
    action(page, "Drop").click()
    expect(dialog(page).get_by_role("button", name="Drop")).to_be_disabled()
    dialog(page).get_by_label("Type 2 to confirm").fill("2")
    confirm(page, "Drop 2 dead letters")
    expect(page.locator("#empty")).to_be_visible()
    assert letters.dead() == 0


def test_a_replayed_letter_goes_back_into_its_queue(
    page: Page, letters: SlotQueues, eventually: Eventually
) -> None:
    tags = {each.tag for each in letters.dead_letters(9)}
    open_page(page, "dead-letters")
    page.get_by_role("checkbox", name="select all letters on this page").check()
    action(page, "Replay").click()
    confirm(page, "Replay 3 dead letters")
    expect(page.locator("#notice")).to_have_text("3 dead letters replayed.")
    # they are no better than before, so they come back under other names
    eventually(lambda: letters.dead() == 3)
    expect(page.locator("#letters tbody tr")).to_have_count(3)
    assert tags.isdisjoint(each.tag for each in letters.dead_letters(9))
    open_page(page, "events?kind=dead-letters")
    expect(row(page, "3 dead letters were replayed").first).to_be_visible()
