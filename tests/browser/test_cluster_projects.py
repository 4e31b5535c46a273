"""The operations page's projects, and what is done to them, in a browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.cluster_page import (
    action,
    check_accessibility,
    check_fits,
    confirm,
    dialog,
    forgive,
    open_editor,
    open_page,
    row,
    tick,
)
from tests.browser.conftest import (
    PLAIN,
    SCRIPT,
    BrowsedCluster,
    PageWatch,
    Web,
    save,
    write_script,
)

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]
Eventually = Callable[..., None]

TOP_OF_TABLE = "document.getElementById('projects').getBoundingClientRect().top"
IS_FOCUS_SEEN = """() => {
  const { x, y, width, height } = document.activeElement.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2) === document.activeElement;
}"""


@pytest.fixture(scope="module")
def web(cluster: BrowsedCluster) -> Web:
    return cluster.web


def names(page: Page) -> list[str]:
    return page.locator("#projects tbody td.first").all_inner_texts()


def has_ended(page: Page, text: str) -> None:
    expect(page.locator("#batch [role=status]")).to_have_text(text)


def test_filters_and_order_stay_in_the_address(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make(*(f"filter_{n}" for n in range(4)))
    cluster.make("filter_on", status="RUNNING", group="daily")
    open_page(page, "projects")
    page.get_by_label("Search").fill("filter_")
    expect(page.locator("#pager")).to_contain_text("1 to 5 of 5")
    page.get_by_label("Status").select_option("STOP")
    expect(page.locator("#pager")).to_contain_text("1 to 4 of 4")
    page.get_by_role("button", name="Project", exact=True).click()
    expect(page.locator("#projects tbody td.first").first).to_have_text("filter_3")
    assert re.search(r"\?q=filter_&status=STOP&sort=-name$", page.url)
    picture(page)

    page.reload()
    expect(page.locator("#pager")).to_contain_text("1 to 4 of 4")
    assert names(page) == [f"filter_{n}" for n in (3, 2, 1, 0)]
    expect(page.get_by_label("Search")).to_have_value("filter_")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Project")
    page.get_by_role("button", name="Clear", exact=True).click()
    page.get_by_label("Group").fill("daily")
    expect(page.locator("#pager")).to_contain_text("1 to 1 of 1")
    assert names(page) == ["filter_on"]


BATCHES = "**/api/v1/batches"


def hold_back(page: Page, press: Callable[[], None]) -> Route:
    """Give the request for a batch that a press sends; it waits, those after it do not."""
    found: list[Route] = []
    page.route(BATCHES, lambda route: found.append(route), times=1)
    with page.expect_request(BATCHES):
        press()
    page.evaluate("0")  # it is routed after it was seen
    (route,) = found
    return route


def catch_up(page: Page) -> None:
    """Wait until the page has the answers to what it asked before."""
    page.evaluate("fetch('/api/v1/settings').then((each) => each.text())")


def answer(page: Page, route: Route) -> None:
    """Let a request go on, and the page have its answer."""
    with page.expect_response(BATCHES):
        route.continue_()
    catch_up(page)


def change(page: Page, operation: str, name: str) -> None:
    """Open the dialog that changes a value of a project in its row."""
    page.get_by_title(f"change the {operation} of {name}", exact=True).click()


def test_a_project_is_created_changed_and_run(
    page: Page, cluster: BrowsedCluster, site: str, picture: Picture, eventually: Eventually
) -> None:
    page.goto("/")
    page.get_by_role("button", name="Create").click()
    dialog(page).get_by_label("Name").fill("made_here")
    dialog(page).get_by_label("Start URL").fill(f"{site}/")
    picture(page, "create")
    dialog(page).get_by_role("button", name="Create").click()
    expect(page).to_have_title("made_here - Editor - cluster - pyspider")
    expect(page.locator("#script .CodeMirror-code")).to_contain_text(f"{site}/")
    write_script(page, SCRIPT.format(site=site))
    save(page)

    open_page(page, "projects?q=made_here")
    change(page, "status", "made_here")
    dialog(page).get_by_label("Status").select_option("RUNNING")
    confirm(page, "Set")
    expect(row(page, "made_here").locator(".badge")).to_have_text("RUNNING")
    change(page, "rate", "made_here")
    dialog(page).get_by_label("Tasks per second").fill("20")
    confirm(page, "Set")
    has_ended(page, "rate: 1 of 1 project done")
    change(page, "group", "made_here")
    dialog(page).get_by_label("Group").fill("mine")
    confirm(page, "Set")
    expect(row(page, "made_here")).to_contain_text("mine")
    found = cluster.web.project("made_here")
    assert [found[each] for each in ("status", "rate", "group")] == ["RUNNING", 20, "mine"]

    page.get_by_role("button", name="run made_here").click()
    has_ended(page, "run: 1 of 1 project done")
    eventually(lambda: cluster.web.results("made_here") == 2)
    picture(page, "ran")
    row(page, "made_here").get_by_role("link", name="Results").click()
    expect(page.locator("table tbody tr")).to_have_count(2)


def test_a_name_that_no_project_may_have_stays_in_the_form(page: Page) -> None:
    open_page(page, "projects")
    page.get_by_role("button", name="Create").click()
    dialog(page).get_by_label("Name").fill("no name")
    dialog(page).get_by_role("button", name="Create").click()
    assert dialog(page).get_by_label("Name").evaluate("each => each.validity.patternMismatch")
    expect(page).to_have_title("Projects - cluster - pyspider")


def test_what_the_server_refuses_is_told_in_the_form(
    page: Page, cluster: BrowsedCluster, watch: PageWatch
) -> None:
    cluster.make("refused")
    open_page(page, "projects?q=refused")
    change(page, "group", "refused")
    dialog(page).get_by_label("Group").fill("x" * 1001)
    dialog(page).get_by_role("button", name="Set").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("1000")
    assert cluster.web.project("refused")["group"] == ""
    forgive(watch, "422")


def test_running_a_project_that_is_not_started_says_so(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make("not_started")
    open_page(page, "projects?q=not_started")
    page.get_by_role("button", name="run not_started").click()
    has_ended(page, "run: 0 of 1 project done, 1 failed")


def test_a_name_may_have_letters_of_any_script(page: Page) -> None:
    open_page(page, "projects")
    page.get_by_role("button", name="Create").click()
    dialog(page).get_by_label("Name").fill("проект_9")
    dialog(page).get_by_role("button", name="Create").click()
    expect(page).to_have_title("проект_9 - Editor - cluster - pyspider")


def test_run_is_sent_once_however_often_it_is_pressed(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make("hasty", status="RUNNING")
    open_page(page, "projects?q=hasty")
    run = page.get_by_role("button", name="run hasty")
    before = cluster.ask("batches")["total"]
    route = hold_back(page, run.click)
    run.click()
    answer(page, route)
    has_ended(page, "run: 1 of 1 project done")
    assert cluster.ask("batches")["total"] == before + 1


def test_the_second_press_of_a_double_click_on_run_is_none(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("doubled", status="RUNNING")
    open_page(page, "projects?q=doubled")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    run = page.get_by_role("button", name="run doubled")
    run.click()
    has_ended(page, "run: 1 of 1 project done")
    run.hover()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    catch_up(page)
    assert asked.count("POST") == 1


UNCLEAR: dict[str, Callable[[Route], None]] = {
    "ERR_FAILED": lambda route: route.abort(),
    "503": lambda route: route.fulfill(status=503, json={"detail": "no answer in time"}),
}
"""How a request may end of which nobody knows whether it was done, by what the browser says."""


@pytest.mark.parametrize("end", UNCLEAR)
def test_a_run_that_is_not_answered_is_sent_again_and_done_once(
    page: Page, cluster: BrowsedCluster, watch: PageWatch, picture: Picture, end: str
) -> None:
    def lose(route: Route) -> None:
        route.fetch()
        UNCLEAR[end](route)

    cluster.make("unanswered", status="RUNNING")
    open_page(page, "projects?q=unanswered")
    before = cluster.ask("batches")["total"]
    page.route(BATCHES, lose, times=1)
    page.get_by_role("button", name="run unanswered").click()
    expect(dialog(page)).to_contain_text("It may have been accepted: see Batches.")
    picture(page)
    assert cluster.ask("batches")["total"] == before + 1
    confirm(page, "Send again")
    has_ended(page, "run: 1 of 1 project done")
    assert cluster.ask("batches")["total"] == before + 1
    forgive(watch, end)


@pytest.mark.parametrize("end", UNCLEAR)
def test_an_order_that_is_not_answered_says_so(
    page: Page, cluster: BrowsedCluster, watch: PageWatch, end: str
) -> None:
    cluster.make("unsure")
    open_page(page, "projects?q=unsure")
    change(page, "group", "unsure")
    UNCLEAR[end](hold_back(page, dialog(page).get_by_role("button", name="Set").click))
    expect(dialog(page).get_by_role("alert")).to_contain_text(
        "it is not known whether this was done"
    )
    confirm(page, "Set")
    has_ended(page, "group: 1 of 1 project done")
    forgive(watch, end)


def test_buttons_are_dim_while_it_is_found_out_what_an_order_would_do(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("dimmed")
    open_page(page, "projects?q=dimmed")
    tick(page, "dimmed")
    start = action(page, "Start")
    plan = hold_back(page, start.click)
    expect(start).to_have_css("opacity", "0.55")
    plan.continue_()
    expect(dialog(page).get_by_role("button", name="Cancel")).to_be_focused()
    expect(start).to_have_css("opacity", "1")


def test_the_line_of_a_batch_is_seen_and_moves_no_row(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make(*(f"in_a_long_list_{number:02}" for number in range(30)), status="RUNNING")
    open_page(page, "projects?q=in_a_long_list_")
    top = page.evaluate(TOP_OF_TABLE)
    page.get_by_role("button", name="run in_a_long_list_00").click()
    has_ended(page, "run: 1 of 1 project done")
    assert page.evaluate(TOP_OF_TABLE) == top
    expect(page.locator("#batch")).to_be_in_viewport(ratio=1)
    for number in range(30):  # nor hides what has the focus
        page.get_by_role("button", name=f"run in_a_long_list_{number:02}").focus()
        assert page.evaluate(IS_FOCUS_SEEN)


def test_a_value_is_changed_by_keyboard(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make("by_keyboard")
    open_page(page, "projects?q=by_keyboard")
    cell = page.get_by_title("change the group of by_keyboard")
    before = cell.inner_text()
    for key in ("Escape", "Enter"):
        cell.press("Enter")
        expect(dialog(page).get_by_label("Group")).to_be_focused()
        page.keyboard.type("night")
        page.keyboard.press(key)
        expect(dialog(page)).to_have_count(0)
        expect(cell).to_have_text(before if key == "Escape" else "night")
        expect(cell).to_be_focused()
    assert cluster.web.project("by_keyboard")["group"] == "night"


def test_a_selection_is_started_as_one_batch_whose_progress_is_shown(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("begin_a", "begin_b", "begin_c")
    open_page(page, "projects?q=begin_")
    expect(action(page, "Start")).to_be_disabled()
    tick(page, "begin_a", "begin_b")
    expect(page.locator("#selected")).to_have_text("2 selected")
    action(page, "Start").click()
    expect(dialog(page)).to_contain_text("Start 2 projects?")
    expect(dialog(page)).to_contain_text("begin_a, begin_b")
    picture(page, "asked")
    before = cluster.ask("batches")["total"]
    confirm(page, "Start 2 projects")
    has_ended(page, "start: 2 of 2 projects done")
    picture(page, "done")
    assert cluster.ask("batches")["total"] == before + 1
    statuses = [cluster.web.project(f"begin_{each}")["status"] for each in "abc"]
    assert statuses == ["RUNNING", "RUNNING", "STOP"]
    expect(row(page, "begin_a").locator(".badge")).to_have_text("RUNNING")


def test_an_operation_that_is_pressed_twice_is_asked_once(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("patient", status="RUNNING")
    open_page(page, "projects?q=patient")
    tick(page, "patient")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    route = hold_back(page, action(page, "Restart").click)
    action(page, "Restart").click()
    page.get_by_label("Search").focus()
    answer(page, route)
    expect(dialog(page)).to_contain_text("Restart 1 project?")
    expect(dialog(page).get_by_role("button", name="Cancel")).to_be_focused()
    assert asked.count("POST") == 1


def test_what_is_filled_in_outlives_a_late_plan(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make("late_plan")
    open_page(page, "projects?q=late_plan")
    tick(page, "late_plan")
    route = hold_back(page, action(page, "Stop").click)
    page.get_by_role("button", name="Create").click()
    dialog(page).get_by_label("Name").fill("filled_in")
    answer(page, route)
    expect(dialog(page)).to_contain_text("Create a project")
    expect(dialog(page).get_by_label("Name")).to_have_value("filled_in")


def test_a_selected_project_that_is_gone_is_left_out(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("left_a", "left_b", "left_c")
    open_page(page, "projects?q=left_")
    tick(page, "left_a", "left_b", "left_c")
    cluster.web.drop_project("left_b")
    action(page, "Start").click()
    expect(dialog(page)).to_contain_text("Start 2 projects?")
    expect(dialog(page)).to_contain_text("1 selected project left out: no longer there.")
    picture(page)
    confirm(page, "Start 2 projects")
    has_ended(page, "start: 2 of 2 projects done")


def test_all_that_match_are_one_batch_by_their_filter(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make(*(f"many_{n:02}" for n in range(60)), status="RUNNING")
    open_page(page, "projects?q=many_")
    page.get_by_role("button", name="select all 60 that match").click()
    expect(page.locator("#selected")).to_have_text("60 selected")
    action(page, "Stop").click()
    expect(dialog(page)).to_contain_text("Stop 60 projects?")
    expect(dialog(page)).to_contain_text("and 40 more")
    confirm(page, "Stop 60 projects")
    has_ended(page, "stop: 60 of 60 projects done")
    page.get_by_role("link", name="Details").click()
    expect(page.locator("#detail")).to_contain_text("pattern *many_*")
    picture(page)
    check_accessibility(page)


def test_rate_and_group_are_asked_for_before_they_are_set(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("set_a", "set_b")
    open_page(page, "projects?q=set_")
    tick(page, "set_a", "set_b")
    action(page, "Rate").click()
    page.get_by_label("Tasks per second").fill("2.5")
    page.get_by_label("At once").fill("7")
    dialog(page).get_by_role("button", name="Continue").click()
    expect(dialog(page)).to_contain_text("Set the rate of 2 projects?")
    confirm(page, "Set the rate of 2 projects")
    has_ended(page, "rate: 2 of 2 projects done")
    tick(page, "set_b")
    action(page, "Group").click()
    dialog(page).get_by_role("textbox").fill("nightly")
    dialog(page).get_by_role("button", name="Continue").click()
    expect(dialog(page)).to_contain_text("Set the group of 1 project?")
    confirm(page, "Set the group of 1 project")
    has_ended(page, "group: 1 of 1 project done")
    found = [cluster.web.project(name) for name in ("set_a", "set_b")]
    assert [(each["rate"], each["burst"]) for each in found] == [(2.5, 7.0)] * 2
    assert [each["group"] for each in found] == ["", "nightly"]


@pytest.mark.parametrize("operation", ["Restart", "Run"])
def test_what_runs_can_be_restarted_and_run(
    page: Page, cluster: BrowsedCluster, operation: str
) -> None:
    cluster.make(f"go_{operation}", status="RUNNING")
    open_page(page, f"projects?q=go_{operation}")
    tick(page, f"go_{operation}")
    action(page, operation).click()
    confirm(page, f"{operation} 1 project")
    has_ended(page, f"{operation.lower()}: 1 of 1 project done")


def test_what_a_run_failed_for_is_told_with_the_reason_and_can_be_retried(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("idle")
    open_page(page, "projects?q=idle")
    tick(page, "idle")
    action(page, "Run").click()
    expect(dialog(page).locator(".fault").first).to_contain_text("not RUNNING or DEBUG: idle")
    picture(page, "warned")
    confirm(page, "Run 1 project")
    has_ended(page, "run: 0 of 1 project done, 1 failed")
    page.get_by_role("link", name="Details").click()
    expect(page.locator("#detail tbody")).to_contain_text("idle")
    picture(page, "failed")
    first = page.url
    page.get_by_role("button", name="Retry 1 failed project").click()
    confirm(page, "Retry 1 project")
    expect(page.locator("#detail dd").first).to_contain_text("retry")
    assert page.url != first


def test_a_project_is_deleted_only_once_its_name_is_typed(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("doomed", "spared")
    open_page(page, "projects?q=*ed")
    tick(page, "doomed")
    action(page, "Delete").click()
    go = dialog(page).get_by_role("button", name="Delete 1 project", exact=True)
    typed = dialog(page).get_by_label("Type doomed to confirm")
    expect(go).to_be_disabled()
    typed.fill("spared")
    expect(go).to_be_disabled()
    typed.fill("doomed")
    expect(go).to_be_enabled()
    picture(page)
    confirm(page, "Delete 1 project")
    has_ended(page, "delete: 1 of 1 project done")
    expect(row(page, "doomed")).to_have_count(0)
    assert (cluster.web.project("doomed"), cluster.web.project("spared") is None) == (None, False)


def test_several_are_deleted_only_once_their_number_is_typed(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("gone_a", "gone_b")
    open_page(page, "projects?q=gone_")
    page.get_by_role("checkbox", name="select all projects on this page").check()
    action(page, "Delete").click()
    dialog(page).get_by_label("Type 2 to confirm").fill("2")
    confirm(page, "Delete 2 projects")
    has_ended(page, "delete: 2 of 2 projects done")
    expect(page.locator("#empty")).to_have_text("No project matches.")


def test_a_name_with_a_space_around_it_is_typed_without(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make(" spaced")
    open_page(page, "projects?q=spaced")
    tick(page, "spaced")
    action(page, "Delete").click()
    dialog(page).get_by_role("textbox").fill("spaced")
    confirm(page, "Delete 1 project")
    has_ended(page, "delete: 1 of 1 project done")


def delete_and_escape(page: Page, name: str) -> Route:
    """Confirm the deletion of a project, and close the dialog before it is answered."""
    open_page(page, f"projects?q={name}")
    tick(page, name)
    action(page, "Delete").click()
    dialog(page).get_by_role("textbox").fill(name)
    go = dialog(page).get_by_role("button", name="Delete 1 project", exact=True)
    route = hold_back(page, go.click)
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    return route


def test_an_order_that_was_confirmed_is_shown_though_its_dialog_was_closed(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("closed_on")
    delete_and_escape(page, "closed_on").continue_()
    has_ended(page, "delete: 1 of 1 project done")
    expect(page.locator("#selected")).to_have_text("none selected")


def test_an_order_that_fails_after_its_dialog_was_closed_is_told(
    page: Page, cluster: BrowsedCluster, watch: PageWatch, picture: Picture
) -> None:
    cluster.make("kept_on")
    route = delete_and_escape(page, "kept_on")
    route.fulfill(status=409, json={"detail": "look again"})
    expect(dialog(page).get_by_role("heading")).to_have_text("Delete 1 project")
    expect(dialog(page)).to_contain_text("look again")
    picture(page)
    confirm(page, "Close")
    expect(page.locator("#selected")).to_have_text("1 selected")
    forgive(watch, "409")


def test_what_is_meant_by_now_must_be_what_was_shown(
    page: Page, cluster: BrowsedCluster, watch: PageWatch
) -> None:
    cluster.make("meant_a", "meant_b")
    open_page(page, "projects?q=meant_&status=STOP")
    page.get_by_role("button", name="select all 2 that match").click()
    action(page, "Delete").click()
    dialog(page).get_by_label("Type 2 to confirm").fill("2")
    cluster.make("meant_c")
    with page.expect_response("**/api/v1/batches") as refused:
        dialog(page).get_by_role("button", name="Delete 2 projects", exact=True).click()
    assert refused.value.status == 409
    expect(dialog(page).get_by_role("alert")).to_contain_text("look again")
    assert cluster.web.project("meant_a") is not None
    forgive(watch, "409")


def test_a_deletion_may_wait_for_pyspiders_24_hours(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make("waits", status="RUNNING")
    open_page(page, "projects?q=waits")
    tick(page, "waits")
    action(page, "Delete").click()
    dialog(page).get_by_label("stop now and delete after pyspider's 24 hours").check()
    dialog(page).get_by_label("Type waits to confirm").fill("waits")
    confirm(page, "Delete 1 project")
    has_ended(page, "delete: 1 of 1 project done")
    expect(row(page, "waits")).to_contain_text("delete")
    expect(row(page, "waits")).to_contain_text("STOP")
    page.get_by_role("link", name="Details").click()
    expect(page.locator("#detail")).to_contain_text("delete, wait true")
    assert cluster.web.project("waits") is not None


def test_a_project_that_goes_takes_no_dialog_and_no_batch_with_it(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("goes")
    open_page(page, "project?name=goes")
    page.get_by_role("button", name="Delete").click()
    cluster.web.drop_project("goes")
    expect(page.locator("#unknown")).to_be_visible()
    dialog(page).get_by_role("button", name="Cancel").click()
    cluster.make("goes")
    expect(page.locator("#unknown")).to_be_hidden()
    page.get_by_role("button", name="Delete").click()
    dialog(page).get_by_label("Type goes to confirm").fill("goes")
    confirm(page, "Delete 1 project")
    has_ended(page, "delete: 1 of 1 project done")
    expect(page.locator("#unknown")).to_be_visible()
    expect(page.locator("#batch")).to_be_visible()


def tab_to(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Press a key until something has the focus, as who has no mouse must."""
    for _ in range(100):
        page.keyboard.press(key)
        if wanted.evaluate("each => each === document.activeElement"):
            return
    pytest.fail(f"{key} does not lead to {wanted}")


def test_an_operation_is_reachable_by_keyboard_alone(page: Page, cluster: BrowsedCluster) -> None:
    cluster.make("keyed")
    open_page(page, "projects?q=keyed")
    tab_to(page, page.get_by_role("button", name="Project", exact=True))
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Project")
    box = page.get_by_role("checkbox", name="select keyed")
    tab_to(page, box)
    page.keyboard.press("Space")
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    tab_to(page, action(page, "Start"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(dialog(page).get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    expect(dialog(page).get_by_role("button", name="Start 1 project")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(action(page, "Start")).to_be_focused()
    assert cluster.web.project("keyed")["status"] == "STOP"


def test_a_script_that_cannot_run_is_brought_back_and_that_is_told(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("cannot_run")
    for script in ("no python", PLAIN):
        assert page.request.put("/api/v1/projects/cannot_run/script", data={"script": script}).ok
    open_page(page, "project?name=cannot_run")
    page.get_by_role("button", name="bring back").nth(1).click()
    dialog(page).get_by_role("button", name="Bring back").click()
    expect(dialog(page)).to_contain_text("It is saved, but cannot run")
    expect(dialog(page).locator(".fault").first).to_contain_text("line 1: ")
    confirm(page, "Close")
    assert cluster.web.project("cannot_run")["script"] == "no python"


def test_a_version_of_a_script_is_compared_and_brought_back(
    page: Page, cluster: BrowsedCluster, picture: Picture
) -> None:
    cluster.make("versioned")
    open_editor(page, "versioned")
    for line in ("first = 1", "second = 2"):
        write_script(page, f"{PLAIN}\n{line}\n")
        save(page)
    open_page(page, "project?name=versioned")
    changes = page.locator("#versions").get_by_role("button", name="what was changed")
    expect(changes).to_have_count(3)  # and the one before

    changes.first.press("Enter")
    expect(page.locator("#version-title")).to_be_focused()
    expect(page.locator("#diff del")).to_have_text("-first = 1\n")
    expect(page.locator("#diff ins")).to_have_text("+second = 2\n")
    check_accessibility(page)
    picture(page)
    page.set_viewport_size({"width": 390, "height": 844})
    check_fits(page)
    page.locator("#version").scroll_into_view_if_needed()
    picture(page, "phone")

    page.get_by_role("button", name="bring back").nth(1).click()
    confirm(page, "Bring back")
    expect(changes).to_have_count(4)
    expect(page.locator("#script")).to_contain_text("first = 1")
    assert "first = 1" in cluster.web.project("versioned")["script"]


def test_a_project_whose_row_has_no_time_has_its_script(
    page: Page, cluster: BrowsedCluster
) -> None:
    cluster.make("undated")
    for script in (f"{PLAIN}# first", f"{PLAIN}# second"):
        assert page.request.put("/api/v1/projects/undated/script", data={"script": script}).ok

    def undate(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        found["items"][0]["updatetime"] = None  # as if the row were damaged
        route.fulfill(response=answer, json=found)

    page.route("**/api/v1/workload?*", undate)
    open_page(page, "project?name=undated")
    expect(page.locator("#script")).to_contain_text("# second")
    page.get_by_role("button", name="bring back").nth(1).click()
    confirm(page, "Bring back")
    assert "# first" in cluster.web.project("undated")["script"]
