"""pyspider's own pages, in a browser: dashboard, tasks, results; and the page of another site."""

import re
import xmlrpc.client
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.cluster_page import forgive
from tests.browser.conftest import SCRIPT, PageWatch, Web, save, write_script
from tests.support.connected import looking, rpc_url
from tests.support.running_cluster import settings_of

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]
Eventually = Callable[..., None]

POST = """([url, body, type]) =>
    fetch(url, {method: "POST", mode: "no-cors", body: new Blob([body], {type})})
    .then(answer => answer.type, error => String(error))"""


def row(page: Page, project: str) -> Locator:
    return page.locator(f"tr[data-name={project}]")


def change(page: Page, cell: Locator, value: str) -> None:
    """Change a value in the little form that opens at a click on it."""
    cell.locator("span").click()
    form = page.locator(".cell-form")
    field = form.locator("select, input")
    if field.evaluate("each => each.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)
    form.locator("[type=submit]").click()
    expect(form).to_have_count(0)
    expect(cell.locator("span")).to_have_text(value)


def test_a_project_is_created_changed_and_run(
    page: Page, web: Web, site: str, picture: Picture, eventually: Eventually
) -> None:
    page.goto("/")
    page.get_by_role("button", name="Create").first.click()
    dialog = page.locator("#create-project-modal")
    dialog.locator("[name=project-name]").fill("made_here")
    dialog.locator("[name=start-urls]").fill(f"{site}/")
    expect(dialog).to_have_css("opacity", "1")
    picture(page, "create")
    dialog.get_by_role("button", name="Create").click()

    expect(page).to_have_title("made_here - Debugger - pyspider")
    expect(page.locator("#python-editor .CodeMirror-code")).to_contain_text(f"{site}/")
    write_script(page, SCRIPT.format(site=site))
    save(page)

    page.goto("/")
    made = row(page, "made_here")
    expect(made.locator(".project-status")).to_have_text("TODO")
    change(page, made.locator(".project-status"), "RUNNING")
    change(page, made.locator(".project-rate"), "20/30")
    change(page, made.locator(".project-group"), "mine")
    found = web.project("made_here")
    assert [found[each] for each in ("status", "rate", "burst", "group")] == [
        "RUNNING",
        20,
        30,
        "mine",
    ]

    run = made.get_by_role("button", name="Run", exact=True)
    run.click()
    expect(run).not_to_have_class(re.compile("warning|danger"))
    eventually(lambda: web.results("made_here") == 2)
    page.reload()
    expect(made.locator(".progress-all .progress-text")).to_have_text(re.compile("all: [1-9]"))
    expect(page.locator(".queue_value").first).to_have_text(re.compile(r"\d+"))
    picture(page, "ran")


def test_a_wrong_rate_is_refused_in_the_form(page: Page, web: Web, picture: Picture) -> None:
    web.add_project("wrong_rate")
    page.goto("/")
    cell = row(page, "wrong_rate").locator(".project-rate")
    cell.locator("span").click()
    page.locator(".cell-form input").fill("fast")
    page.locator(".cell-form [type=submit]").click()
    expect(page.locator(".cell-form .fault")).to_have_text("format error: rate/burst")
    picture(page)
    assert web.project("wrong_rate")["rate"] == 10


def test_what_the_server_refuses_is_told_in_the_form(
    page: Page, web: Web, watch: PageWatch
) -> None:
    web.add_project("refused")
    page.goto("/")
    web.drop_project("refused")
    row(page, "refused").locator(".project-group span").click()
    form = page.locator(".cell-form")
    form.locator("input").fill("mine")
    form.locator("[type=submit]").click()
    expect(form.locator(".fault")).to_have_text("no such project.")
    expect(row(page, "refused").locator(".project-group span")).to_have_text("[group]")
    forgive(watch, "404")


def test_the_form_is_used_by_keyboard(page: Page, web: Web) -> None:
    web.add_project("by_keyboard")
    page.goto("/")
    cell = row(page, "by_keyboard").locator(".project-rate span")
    form = page.locator(".cell-form")
    for key in ("Escape", "Enter"):
        cell.press("Enter")
        expect(form.locator("input")).to_be_focused()
        page.keyboard.press("Control+A")
        page.keyboard.type("7/8")
        page.keyboard.press(key)
        expect(form).to_have_count(0)
        expect(cell).to_have_text("10/10" if key == "Escape" else "7/8")
    assert web.project("by_keyboard")["burst"] == 8


@pytest.mark.parametrize("wrong", ["", "7", "7/", "/7", "7/8/9", "7/Infinity"])
def test_what_is_no_rate_is_not_sent(page: Page, web: Web, watch: PageWatch, wrong: str) -> None:
    name = f"no_rate_{len(wrong)}_{wrong.count('/')}_{wrong.startswith('/')}"
    web.add_project(name)
    page.goto("/")
    row(page, name).locator(".project-rate span").click()
    page.locator(".cell-form input").fill(wrong)
    page.locator(".cell-form [type=submit]").click()
    expect(page.locator(".cell-form .fault")).to_have_text("format error: rate/burst")
    assert not [url for url in watch.asked if url.endswith("/update")]


def test_running_a_project_that_is_not_started_says_so(page: Page, web: Web) -> None:
    web.add_project("not_started")
    page.goto("/")
    expect(page.locator("#need-set-status-alert")).to_be_hidden()
    row(page, "not_started").get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#need-set-status-alert")).to_be_visible()


def test_a_click_on_a_head_sorts_the_projects(page: Page, web: Web, picture: Picture) -> None:
    for name, rate in {"a": 3, "b": 20, "c": 1}.items():
        web.add_project(f"sorted_{name}", rate=rate)
    page.goto("/")

    def order(head: str) -> str:
        page.locator("th", has_text=head).click()
        names = page.locator("tr[data-name^=sorted_] .project-name").all_inner_texts()
        return "".join(each.removeprefix("sorted_") for each in names)

    assert [order("rate/burst"), order("rate/burst")] == ["bac", "cab"]
    assert [order("project name"), order("project name")] == ["abc", "cba"]
    picture(page)


# --- tasks and results -------------------------------------------------------------------------


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


# --- another site ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text/xml", "text/plain", ""])
def test_a_page_of_another_site_deletes_nothing(
    chromium: Browser, web: Web, site: str, kind: str
) -> None:
    # given
    batch = f"by-a-page-{kind.replace('/', '-')}"
    if web.project("kept") is None:
        web.add_project("kept")
    with looking(settings_of(web.running)) as directory:
        (member,) = directory.members().values()
    asked = ("delete", {"names": ["kept"]}, {"wait": False}, "root", batch)
    body = xmlrpc.client.dumps(asked, "submit_operation")
    # when
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(site)
        answered = page.evaluate(POST, [f"http://{member.address}/", body, kind])
    # then
    assert answered == "opaque"  # so the browser sent it
    with (
        xmlrpc.client.ServerProxy(rpc_url(member.address, web.secret())) as rpc,
        pytest.raises(xmlrpc.client.Fault, match="there is no batch"),
    ):
        rpc.get_batch(batch)
    assert web.project("kept") is not None
