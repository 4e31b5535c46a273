"""Orders to the whole cluster, given in a browser and carried out by real schedulers."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from pyspider_zk.projects.slots import slot_of
from tests.browser.cluster_page import check_accessibility, confirm, dialog, forgive, open_page
from tests.browser.conftest import BrowsedCluster, PageWatch, Web

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

SLOTS = 256
WATCHED = 30  # seconds of a lease: while a page is looked at, who is suspended is not dead yet
UNSET = dict.fromkeys(("lease", "renewal", "restart_delay", "moves", "weigh_by", "weigh_every"))

Picture = Callable[..., None]
Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    cluster.make("news", "shop")
    return cluster.web


@pytest.fixture(autouse=True)
def whole(page: Page, cluster: BrowsedCluster, eventually: Eventually) -> Iterator[None]:
    """Begin and end with two members that share all slots, and without orders."""

    def is_whole() -> bool:
        members = cluster.ask("overview")["members"] or []
        shared = all(each["slots"] > 100 and not each["draining"] for each in members)
        return len(members) == 2 and shared

    eventually(is_whole, within=180)
    yield
    order(page, "maintenance", mode="off")
    order(page, "settings", **UNSET)
    for number in cluster.ask("settings")["evicted"]:
        order(page, f"members/{number}/evict", undo=True)
    for pin in cluster.ask("settings")["pins"]:
        order(page, f"slots/{pin['slot']}/pin", member=None)
    eventually(is_whole, within=180)


def order(page: Page, path: str, **body: Any) -> None:
    """Give an order, past the page."""
    answer = page.request.post(f"/api/v1/{path}", data=body)
    assert answer.ok, answer.text()


def slots(cluster: BrowsedCluster) -> dict[int, int]:
    return {each["number"]: each["slots"] for each in cluster.members()}


def follower(cluster: BrowsedCluster) -> int:
    """Return the number of the member that does not lead."""
    return int(next(each["number"] for each in cluster.members() if not each["leader"]))


@contextmanager
def suspended(cluster: BrowsedCluster, number: int) -> Iterator[None]:
    """Suspend a member, so that none of its slots moves before somebody has looked."""
    pid = next(each["pid"] for each in cluster.members() if each["number"] == number)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def member(page: Page, number: int) -> Locator:
    return page.locator(
        "#members tbody tr", has=page.get_by_label(re.compile(f"t member {number}$"))
    )


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


# -- members ---------------------------------------------------------------------------------


def test_a_member_is_evicted_and_admitted_again(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    number = follower(cluster)
    before = slots(cluster)[number]
    order(page, "settings", lease=WATCHED)
    open_page(page, "steering")
    press(page, f"evict member {number}")
    expect(dialog(page)).to_contain_text(f"Its {before} slots move to others")
    expect(dialog(page).locator("tbody tr")).to_have_text(
        re.compile(rf"member {number}member \d{before}")
    )
    dialog(page).get_by_text("Which slots").click()
    expect(dialog(page)).to_contain_text(re.compile(rf"member {number} to member \d: \d+, \d+"))
    check_accessibility(page)
    picture(page, "asked")
    line = page.locator("#progress .batch")
    with suspended(cluster, number):
        confirm(page, f"Evict member {number}")
        expect(line).to_contain_text(f"Member {number}: 0 of {before} slots moved away")
        picture(page, "progress")
    expect(line).to_contain_text(f"Member {number} is evicted")
    expect(member(page, number)).to_contain_text("evicted")
    assert slots(cluster)[number] == 0
    press(page, f"admit member {number}")
    confirm(page, f"Admit member {number}")
    expect(member(page, number)).to_contain_text("alive")
    expect(member(page, number).locator("[data-label=Slots]")).to_have_text(re.compile(r"^1\d\d$"))


def test_a_member_is_drained_and_its_slots_are_counted(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    number = follower(cluster)
    open_page(page, "steering")
    press(page, f"drain member {number}")
    expect(dialog(page)).to_contain_text("then its process")
    expect(dialog(page)).to_contain_text("This cannot be undone.")
    picture(page, "asked")
    confirm(page, f"Drain member {number}")
    expect(page.locator("#progress")).to_contain_text(f"Member {number} has left the cluster")


def test_what_would_move_is_asked_once_however_often_it_is_pressed(
    page: Page, cluster: BrowsedCluster
) -> None:
    number = follower(cluster)
    asked: list[Route] = []
    page.route("**/api/v1/assignment/preview?*", lambda route: asked.append(route))
    open_page(page, "steering")
    with page.expect_request("**/api/v1/assignment/preview?*"):
        press(page, f"drain member {number}")
    press(page, f"evict member {number}")
    (route,) = asked
    route.continue_()
    expect(dialog(page)).to_contain_text(f"Drain member {number}?")
    expect(dialog(page).get_by_role("button", name="Cancel")).to_be_focused()


def test_who_is_evicted_and_does_not_run_is_listed(page: Page, cluster: BrowsedCluster) -> None:
    order(page, "members/7/evict")
    open_page(page, "steering")
    expect(member(page, 7)).to_contain_text("not running")
    press(page, "admit member 7")
    confirm(page, "Admit member 7")
    expect(page.locator("#members tbody tr")).to_have_count(2)
    assert cluster.ask("settings")["evicted"] == []


# -- maintenance and rebalancing -------------------------------------------------------------


def test_maintenance_is_shown_on_every_page_until_it_is_over(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    banner = page.locator("#maintenance")
    open_page(page, "steering")
    expect(banner).to_be_hidden()
    press(page, "Maintenance…")
    expect(dialog(page)).to_contain_text("Those of members that drain, leave or die still move.")
    picture(page, "asked")
    confirm(page, "Turn maintenance on")
    expect(banner).to_contain_text(re.compile(r"^Maintenance: .* Since \d\d \w{3,4}, [\d:]+\.$"))
    press(page, "Hold…")
    expect(dialog(page)).to_contain_text("not even that of a dead member")
    confirm(page, "Hold all slots")
    assert cluster.ask("settings")["maintenance"] == "hold"
    for path in ("", "projects", "assignment", "batches", "events", "dead-letters"):
        open_page(page, path)
        expect(banner).to_contain_text("Maintenance, on hold: No slot moves")
    check_accessibility(page)
    picture(page, "banner")
    banner.get_by_role("link", name="Change it").click()
    press(page, "End maintenance…")
    expect(dialog(page)).to_contain_text("No slot will move at once.")
    confirm(page, "End maintenance")
    expect(banner).to_be_hidden()
    assert cluster.ask("settings")["maintenance"] == "off"


@pytest.fixture
def uneven(page: Page, cluster: BrowsedCluster, eventually: Eventually) -> int:
    """Give the number of a member that has no slots, because of maintenance."""
    number = follower(cluster)
    order(page, f"members/{number}/evict")
    eventually(lambda: slots(cluster)[number] == 0)
    order(page, "maintenance", mode="on")
    order(page, f"members/{number}/evict", undo=True)
    return number


def test_what_a_rebalancing_would_move_is_shown_and_then_moves(
    page: Page, cluster: BrowsedCluster, uneven: int, picture: Picture
) -> None:
    order(page, "settings", lease=WATCHED)
    open_page(page, "steering")
    press(page, "Rebalance…")
    title = dialog(page).get_by_role("heading").inner_text()
    moves = int(re.fullmatch(r"Move (\d+) slots\?", title)[1])
    expect(dialog(page)).to_contain_text("Maintenance is suspended while they move")
    expect(dialog(page).locator("tbody tr")).to_contain_text([f"member {uneven}{moves}"])
    picture(page, "asked")
    dialog(page).get_by_role("button", name="Cancel").click()
    assert slots(cluster)[uneven] == 0
    press(page, "Rebalance…")
    line = page.locator("#progress .batch")
    with suspended(cluster, next(number for number in slots(cluster) if number != uneven)):
        confirm(page, f"Move {moves} slots")
        expect(line).to_contain_text(f"Rebalancing: 0 of {moves} slots moved")
        picture(page, "progress")
    expect(line).to_contain_text(f"Rebalanced: {moves} slots moved.")
    expect(page.locator("#maintenance")).to_contain_text("Slots are not evened out")
    assert (slots(cluster)[uneven], cluster.ask("settings")["maintenance"]) == (moves, "on")
    press(page, "Rebalance…")
    expect(dialog(page)).to_contain_text("Nothing would move")
    confirm(page, "Close")


def test_a_rebalancing_that_would_move_others_by_now_is_refused(
    page: Page, cluster: BrowsedCluster, uneven: int, watch: PageWatch, picture: Picture
) -> None:
    open_page(page, "steering")
    press(page, "Rebalance…")
    go = dialog(page).get_by_role("button", name=re.compile(r"^Move \d+ slots$"))
    other = next(number for number in slots(cluster) if number != uneven)
    for slot in range(SLOTS // 2):
        order(page, f"slots/{slot}/pin", member=uneven if slot % 2 else other)
    go.click()
    fault = dialog(page).get_by_role("alert")
    expect(fault).to_have_text("other slots would move by now: look again")
    picture(page)
    dialog(page).get_by_role("button", name="Cancel").click()
    assert slots(cluster)[uneven] == 0
    assert [each for each in watch.wrong if "409" not in each] == []
    watch.wrong.clear()


# -- pins ------------------------------------------------------------------------------------


def test_a_project_is_pinned_and_unpinned(
    page: Page, cluster: BrowsedCluster, eventually: Eventually, picture: Picture
) -> None:
    slot = slot_of("news", SLOTS)
    owners = {each["slot"]: each["owner"] for each in cluster.ask("assignment")["items"]}
    other = next(number for number in slots(cluster) if number != owners[slot])
    open_page(page, "steering")
    expect(page.get_by_text("No slot is pinned.")).to_be_visible()
    page.get_by_label("Project or slot").fill("news")
    page.get_by_label("Member", exact=True).fill(str(other))
    page.keyboard.press("Enter")
    expect(dialog(page)).to_contain_text(f"It moves there from member {owners[slot]} now.")
    picture(page, "asked")
    confirm(page, f"Pin slot {slot}")
    expect(page.locator("#pins tbody tr")).to_contain_text([f"{slot}member {other}"])
    picture(page, "pinned")
    eventually(lambda: cluster.ask("assignment")["items"][slot]["owner"] == other)
    press(page, f"unpin slot {slot}")
    confirm(page, f"Unpin slot {slot}")
    expect(page.get_by_text("No slot is pinned.")).to_be_visible()
    assert cluster.ask("settings")["pins"] == []


def test_a_number_that_is_also_a_project_elsewhere_pins_nothing(
    page: Page, cluster: BrowsedCluster
) -> None:
    slot = slot_of("12", SLOTS)
    assert slot != 12
    cluster.make("12")
    open_page(page, "steering")
    page.get_by_label("Member", exact=True).fill("0")
    page.get_by_label("Project or slot").fill("12")
    press(page, "Pin…")
    why = f"12 is also a project, in slot {slot}: say {slot} if that is meant, and 012 for slot 12."
    expect(page.locator("#pin-fault")).to_have_text(why)
    page.get_by_label("Project or slot").fill("012")
    press(page, "Pin…")
    confirm(page, "Pin slot 12")
    expect(page.locator("#pins tbody tr")).to_have_count(1)


@pytest.mark.parametrize(
    ("what", "number", "why"),
    [
        ("256", "0", "There is no slot 256: the cluster has 256, from 0 on."),
        ("nosuch", "0", "nosuch"),
        ("5", "one", "the number of a member"),
    ],
)
def test_what_cannot_be_pinned_is_told(
    page: Page, cluster: BrowsedCluster, watch: PageWatch, what: str, number: str, why: str
) -> None:
    open_page(page, "steering")
    page.get_by_label("Project or slot").fill(what)
    page.get_by_label("Member", exact=True).fill(number)
    press(page, "Pin…")
    expect(page.locator("#pin-fault")).to_contain_text(why)
    assert cluster.ask("settings")["pins"] == []
    assert [each for each in watch.wrong if "404" not in each] == []
    watch.wrong.clear()


# -- settings --------------------------------------------------------------------------------


def test_settings_are_changed_and_what_cannot_be_is_told_at_the_field(
    page: Page, cluster: BrowsedCluster, watch: PageWatch, picture: Picture
) -> None:
    open_page(page, "steering")
    lease, renewal = page.get_by_label("Lease", exact=True), page.get_by_label("Renewal")
    fault = page.locator("#fault-lease")
    for value, why in (("0.1", "Must be greater than"), ("soon", "Not a valid number.")):
        lease.fill(value)
        press(page, "Save")
        expect(fault).to_contain_text(why)
        expect(lease).to_have_attribute("aria-invalid", "true")
        expect(lease).to_be_focused()
    lease.fill("3")
    renewal.fill("2")
    press(page, "Save")
    expect(fault).to_contain_text("3 s must be at least three renewals of 2 s")
    check_accessibility(page)
    picture(page, "refused")
    assert cluster.ask("settings")["lease"] is None
    renewal.fill("0.5")
    press(page, "Save")
    expect(page.locator("#settings-told")).to_contain_text("Saved.")
    expect(fault).to_be_empty()
    found = cluster.ask("settings")
    assert (found["lease"], found["renewal"]) == (3, 0.5)
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    lease.fill("")
    press(page, "Save")
    expect(page.locator("#settings-told")).to_contain_text("Saved.")
    assert [each for each in watch.wrong if "422" not in each] == []
    watch.wrong.clear()


def test_that_nobody_knows_whether_settings_were_saved_is_told(
    page: Page, cluster: BrowsedCluster, watch: PageWatch
) -> None:
    def unanswered(route: Route) -> None:
        if route.request.method == "GET":
            route.fallback()
        else:
            route.fetch()
            route.abort()

    page.route("**/api/v1/settings", unanswered)
    open_page(page, "steering")
    page.get_by_label("Restart delay").fill("45")
    press(page, "Save")
    told = page.locator("#settings-told")
    expect(told).to_contain_text("It is not known whether anything was changed")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()  # once the page knows
    assert cluster.ask("settings")["restart_delay"] == 45
    forgive(watch, "ERR_FAILED")


def test_what_is_typed_while_settings_are_saved_stays_and_is_sent_after_it(
    page: Page, cluster: BrowsedCluster
) -> None:
    open_page(page, "steering")
    lease, save = page.get_by_label("Lease", exact=True), page.get_by_role("button", name="Save")
    discard, told = page.get_by_role("button", name="Discard"), page.locator("#settings-told")
    settings, held = "**/api/v1/settings", list[Route]()
    page.route(settings, lambda route: held.append(route), times=1)
    lease.fill("10")
    with page.expect_request(settings):
        press(page, "Save")
    lease.fill("25")
    order(page, "settings", moves=9)
    expect(page.get_by_label("Moves")).to_have_value("9")  # so the page has looked meanwhile
    expect(save).to_be_disabled()
    expect(discard).to_be_disabled()
    (route,) = held
    route.continue_()
    expect(told).to_contain_text("Saved.")
    expect(lease).to_have_value("25")
    expect(save).to_be_enabled()
    expect(discard).to_be_enabled()
    assert cluster.ask("settings")["lease"] == 10
    press(page, "Save")
    expect(save).to_be_disabled()
    expect(told).to_contain_text("Saved.")
    assert cluster.ask("settings")["lease"] == 25


def test_a_response_from_before_a_saving_does_not_undo_it_in_the_form(
    page: Page, cluster: BrowsedCluster
) -> None:
    open_page(page, "steering")
    lease = page.get_by_label("Lease", exact=True)
    overview, held = "**/api/v1/overview", list[Route]()
    before = cluster.ask("overview")
    page.route(overview, lambda route: route.continue_() if held else held.append(route))
    with page.expect_request(overview):
        pass  # which the page sends every two seconds
    lease.fill("3")
    press(page, "Save")
    expect(page.locator("#settings-told")).to_contain_text("Saved.")
    with page.expect_response("**/api/v1/assignment/rebalance") as response:
        held[0].fulfill(json=before)
    response.value.finished()
    lease.fill("")
    press(page, "Save")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    expect(page.locator("#settings-told")).to_contain_text("Saved.")
    assert cluster.ask("settings")["lease"] is None


def test_what_slots_weigh_is_chosen(page: Page, cluster: BrowsedCluster) -> None:
    open_page(page, "steering")
    weigh_by = page.get_by_label("Weigh by")
    expect(weigh_by).to_have_value("load")
    weigh_by.select_option("projects alone")
    page.get_by_label("Weigh every").fill("60")
    press(page, "Save")
    expect(page.locator("#settings-told")).to_contain_text("Saved.")
    found = cluster.ask("settings")
    assert (found["weigh_by"], found["weigh_every"]) == ("projects", 60)
    order(page, "settings", weigh_by=None, weigh_every=None)
    expect(weigh_by).to_have_value("load")


def test_what_somebody_types_stays_while_others_change_settings(page: Page) -> None:
    open_page(page, "steering")
    delay, moves = page.get_by_label("Restart delay"), page.get_by_label("Moves")
    expect(moves).to_have_value("64")
    delay.fill("45")
    order(page, "settings", moves=9, restart_delay=30)
    expect(moves).to_have_value("9")
    expect(delay).to_have_value("45")
    press(page, "Discard")
    expect(delay).to_have_value("30")
