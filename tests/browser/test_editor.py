"""The editor, in a browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import FrameLocator, Page, Route, expect
from pyquery import PyQuery

from tests.browser.cluster_page import check_accessibility, check_fits, forgive, open_editor
from tests.browser.conftest import PLAIN, SCRIPT, PageWatch, Web, save, write_script

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#step")).to_have_attribute("aria-busy", "false")


def follow(page: Page) -> None:
    """Run the first of the links to follow."""
    tab(page, "Follows")
    page.locator("#follows").get_by_role("button").first.click()
    expect(page.locator("#step")).to_have_attribute("aria-busy", "false")


def shown(page: Page) -> FrameLocator:
    return page.frame_locator("#fetched iframe")


def mine(request: pytest.FixtureRequest) -> str:
    """Return the name of the test's project."""
    name: str = request.node.originalname
    return name.removeprefix("test_")[:32]


@pytest.fixture
def editor(page: Page, site: str, request: pytest.FixtureRequest) -> Page:
    """Give an editor with the script of a new project."""
    page.on("dialog", lambda asked: asked.accept())  # that there are unsaved changes
    open_editor(page, mine(request))
    write_script(page, SCRIPT.format(site=site))
    return page


# -- the script ------------------------------------------------------------------------------


def test_a_script_is_written_and_saved(editor: Page, web: Web, site: str, picture: Picture) -> None:
    expect(editor.locator("#state")).to_have_text("unsaved")
    save(editor)
    picture(editor)
    saved = web.project("a_script_is_written_and_saved")
    assert saved["script"] == SCRIPT.format(site=site)
    editor.reload()
    expect(editor.locator("#script .cm-def").first).to_have_text("Handler")
    expect(editor.locator("#state")).to_have_text("saved")


def test_unsaved_changes_are_told_before_the_page_is_left(page: Page) -> None:
    asked: list[str] = []
    page.on("dialog", lambda each: [asked.append(each.type), each.accept()])
    open_editor(page, "unsaved")
    page.reload()
    assert asked == []
    open_editor(page, "unsaved")
    write_script(page, PLAIN)
    page.reload()
    assert asked == ["beforeunload"]


def test_what_another_has_saved_meanwhile_is_kept_or_taken(
    page: Page, web: Web, picture: Picture, watch: PageWatch
) -> None:
    web.add_project("shared")
    script = page.locator("#script .CodeMirror-code")
    told = page.get_by_role("alert")
    page.on("dialog", lambda asked: asked.accept())
    open_editor(page, "shared")
    write_script(page, f"{PLAIN}# mine")
    theirs = {"script": f"{PLAIN}# theirs"}
    assert page.request.put("/api/v1/projects/shared/script", data=theirs).ok
    page.get_by_role("button", name="Save", exact=True).click()
    expect(told).to_contain_text("Not saved: project 'shared' has another script by now")
    expect(told).to_contain_text("That was saved")
    assert "# theirs" in web.project("shared")["script"]
    picture(page)
    check_accessibility(page)

    told.get_by_role("button", name="Load theirs").click()
    expect(script).to_contain_text("# theirs")
    script.click()
    page.keyboard.press("Control+Z")
    expect(script).to_contain_text("# mine")
    expect(page.locator("#state")).to_have_text("unsaved")

    web.change_project("shared", script=f"{PLAIN}# theirs again")
    page.get_by_role("button", name="Save", exact=True).click()
    over = told.get_by_role("button", name="Save mine all the same")
    expect(over).to_be_visible()
    expect(told).not_to_contain_text("That was saved")  # the newest version is not theirs
    over.click()
    expect(page.locator("#state")).to_have_text("saved")
    expect(told).to_be_hidden()
    assert "# mine" in web.project("shared")["script"]
    open_editor(page, "shared")
    versions = page.request.get("/api/v1/projects/shared/versions").json()["items"]
    kept = page.request.get(f"/api/v1/projects/shared/versions/{versions[1]['saved_at']:.3f}")
    assert "# theirs again" in kept.json()["script"]
    forgive(watch, "409")


def test_what_could_not_be_loaded_is_not_saved_over(
    page: Page, web: Web, watch: PageWatch, request: pytest.FixtureRequest
) -> None:
    web.add_project(mine(request))
    page.route("**/script", lambda route: route.fulfill(status=503, json={"detail": "away"}))
    page.goto(f"/cluster/editor?project={mine(request)}")
    expect(page.locator("#told")).to_contain_text("away")
    page.unroute("**/script")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.keyboard.press("Control+s")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#told")).to_contain_text("away")
    page.reload()
    expect(page.locator("#state")).to_have_text("saved")
    assert web.project(mine(request))["script"] == PLAIN
    forgive(watch, "503")


def test_what_may_have_been_saved_is_saved_again(page: Page, web: Web, watch: PageWatch) -> None:
    def unanswered(route: Route) -> None:
        route.fetch()
        route.fulfill(status=504)

    open_editor(page, "unanswered")
    write_script(page, PLAIN)
    page.route("**/api/v1/projects/unanswered/script", unanswered, times=1)
    page.get_by_role("button", name="Save", exact=True).click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("It is not known whether it was saved: the web UI returned 504")
    expect(page.locator("#state")).to_have_text("unsaved")
    assert web.project("unanswered")["script"] == PLAIN
    save(page)
    expect(told).to_be_hidden()
    forgive(watch, "504")


def test_a_project_that_is_gone_is_created_again(
    page: Page, web: Web, watch: PageWatch, request: pytest.FixtureRequest
) -> None:
    web.add_project(mine(request))
    open_editor(page, mine(request))
    write_script(page, f"{PLAIN}# mine\n")
    web.drop_project(mine(request))
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#told")).to_contain_text("the project is gone")
    page.get_by_role("button", name="Create it again").click()
    expect(page.locator("#state")).to_have_text("saved")
    assert web.project(mine(request))["script"] == f"{PLAIN}# mine\n"
    forgive(watch, "409")


def test_an_error_is_marked_at_its_line(editor: Page, picture: Picture) -> None:
    marks = editor.locator("#script [role=img]")
    script = editor.locator("#script .CodeMirror-code")
    write_script(editor, "import re\nno python")
    save(editor)
    expect(editor.get_by_role("alert")).to_contain_text("It is saved, but cannot run: line 2:")
    expect(marks).to_have_count(1)
    write_script(editor, f"{PLAIN}\n    def on_start(self):\n        1 / 0\n")
    run(editor)
    expect(editor.locator("#log")).to_contain_text("ZeroDivisionError")
    expect(marks).to_have_attribute("title", "ZeroDivisionError: division by zero")
    number = PLAIN.count("\n") + 3
    box = script.locator("> div", has=editor.locator("[role=img]"))
    expect(box.locator(".CodeMirror-linenumber")).to_have_text(str(number))
    picture(editor)
    editor.locator("#log").get_by_role("button", name=f"line {number}").last.click()
    expect(script.locator(".CodeMirror-activeline .CodeMirror-linenumber")).to_have_text(
        str(number)
    )
    write_script(editor, PLAIN)
    save(editor)
    expect(marks).to_have_count(0)


def test_a_name_that_no_project_has_is_told(page: Page, watch: PageWatch) -> None:
    page.goto("/cluster/editor?project=a b")
    expect(page.get_by_role("alert")).to_contain_text("not allowed")
    forgive(watch, "400")


def test_what_is_saved_elsewhere_is_run(editor: Page, web: Web) -> None:
    save(editor)
    web.change_project("what_is_saved_elsewhere_is_run", script=f"{PLAIN}\nprint('by WebDAV')\n")
    webdav = editor.get_by_role("button", name="WebDAV mode")
    webdav.click()
    expect(editor.locator("#script")).to_be_hidden()
    with editor.expect_request("**/run") as asked:
        run(editor)
    assert "webdav_mode=true" in str(asked.value.post_data)
    expect(editor.locator("#log")).to_contain_text("on_start")
    editor.keyboard.press("Control+s")
    webdav.click()
    expect(editor.locator("#script .CodeMirror-code")).to_contain_text("by WebDAV")
    expect(editor.locator("#state")).to_have_text("saved")


# -- steps -----------------------------------------------------------------------------------


def test_steps_are_run_from_the_start_to_a_result(
    editor: Page, site: str, picture: Picture
) -> None:
    run(editor)
    follows = editor.locator("#follows li")
    expect(follows).to_have_count(1)
    expect(follows.locator(".url")).to_have_text(f"{site}/")
    follows.locator("summary").click()
    expect(follows.locator("pre")).to_contain_text("index_page")
    picture(editor, "start")

    follow(editor)
    expect(follows).to_have_count(2)
    tab(editor, "Web")
    expect(shown(editor).locator("h1")).to_have_text("Page /")
    picture(editor, "web")
    tab(editor, "HTML")
    expect(editor.locator("#html .cm-tag").first).to_be_visible()
    picture(editor, "html")

    follow(editor)
    expect(editor.locator("#log")).to_contain_text(f"seen {site}/one")
    expect(editor.locator("#log")).to_contain_text("'title': 'page /one'")
    picture(editor, "result")

    task = editor.locator("#task .CodeMirror-code")
    editor.get_by_role("button", name="Back").click()
    expect(task).to_contain_text("index_page")
    editor.get_by_role("button", name="Back").click()
    expect(task).to_contain_text("data:,on_start")
    expect(editor.get_by_role("button", name="Back")).to_be_disabled()
    editor.get_by_role("button", name="Forward").click()
    expect(task).to_contain_text("index_page")


def test_of_the_presses_while_a_step_runs_the_latest_is_run(editor: Page) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    editor.route("**/run", hold_the_first)
    with editor.expect_request("**/run"):
        editor.get_by_role("button", name="Run", exact=True).click()
    for line in ("first = 1", "second = 2"):
        write_script(editor, f"{PLAIN}\n{line}\n")
        editor.keyboard.press("Control+Enter")
    expect(editor.locator("#step")).to_have_attribute("aria-busy", "true")
    assert len(held) == 1
    with editor.expect_request("**/run") as later:
        held[0].fulfill(json={"logs": "of the first"})
    assert "second" in str(later.value.post_data)
    expect(editor.locator("#step")).to_have_attribute("aria-busy", "false")
    expect(editor.locator("#log")).not_to_contain_text("of the first")
    assert len(held) == 2


def test_the_task_is_laid_out_and_its_faults_are_marked(editor: Page, picture: Picture) -> None:
    task = editor.locator("#task")
    expect(task.locator(".CodeMirror-line")).to_have_count(8)
    task.locator(".CodeMirror-code").click()
    editor.keyboard.press("Control+End")
    editor.keyboard.insert_text(" not json")
    expect(task.locator(".CodeMirror-lint-mark-error")).not_to_have_count(0)
    picture(editor)
    editor.get_by_role("button", name="Back").click()
    expect(task.locator(".CodeMirror-lint-mark-error")).to_have_count(0)


def test_a_task_that_was_tried_is_run_again_and_has_a_link(page: Page, web: Web) -> None:
    web.add_project("tried")
    row = {"url": "data:,x", "process": {"callback": "seen"}, "fetch": {"save": 7}, "status": 2}
    web.add_task("tried", "http://x//a?b", row)
    open_editor(page, "tried", "&taskid=http%3A%2F%2Fx%2F%2Fa%3Fb")
    expect(page.locator("#task .CodeMirror-code")).to_contain_text('"save": 7')
    page.get_by_role("link", name="tried: SUCCESS").click()
    expect(page.locator("h1")).to_have_text("Task http://x//a?b")


# -- what was fetched ------------------------------------------------------------------------


def test_the_helper_finds_the_selector_of_what_is_clicked(editor: Page, picture: Picture) -> None:
    run(editor)
    follow(editor)
    tab(editor, "Web")
    expect(shown(editor).locator("h1")).to_be_visible()
    editor.get_by_role("button", name="Selector helper").click()
    shown(editor).locator("b").click()
    selector = editor.get_by_label("Selector", exact=True)
    expect(selector).to_have_value("b")
    editor.get_by_role("group", name="p", exact=True).get_by_role("button", name="<p>").click()
    expect(selector).to_have_value(".note > b")
    editor.get_by_role("group", name="b", exact=True).get_by_role("button", name="<b>").click()
    expect(selector).to_have_value(".note")
    expect(editor.locator("#matches")).to_have_text("1 element selected")
    expect(shown(editor).locator("pyspider-mark.chosen")).to_have_count(1)
    picture(editor)
    check_accessibility(editor)
    editor.get_by_role("button", name="Add to the script").click()
    expect(editor.locator("#script .CodeMirror-code")).to_contain_text(".note")


ODD = """<html><head><title>t</title></head><body><div id="1a" class="md:x b"><p class="b">x</p>
<p id='q"q'>y</p><p>z</p></div><a rel='n"\\' href="/">l</a><form id="f"><input name="id"></form>
<table><tr><td class="c">1</td><td>2</td></tr></table></body></html>"""

SHORTENED = """async (markup) => {
    const { selectorOf, shorten, stepOf } = await import("/cluster/static/selector.js");
    const page = new DOMParser().parseFromString(markup, "text/html");
    const select = (selector) => [...page.querySelectorAll(selector)];
    return select("body *:not(tbody)").map((element) => {
        const steps = [];
        for (let each = element; each; each = each.parentElement) steps.unshift(stepOf(each));
        const whole = select(selectorOf(steps));
        shorten(steps, select);
        const left = select(selectorOf(steps));
        const isSame = left.every((each, place) => each === whole[place]);
        return [selectorOf(steps), whole.length, isSame];
    });
}"""


def test_what_is_proposed_selects_in_a_script_what_the_whole_path_does(page: Page) -> None:
    open_editor(page, "any")
    found = page.evaluate(SHORTENED, ODD)
    assert len(found) == 11
    for selector, selected, is_same in found:
        assert is_same, selector
        assert len(PyQuery(ODD)(selector)) == selected, selector
    proposed = [selector for selector, *_ in found]
    assert proposed[:3] == ["body > .b", ".b > .b", '#q\\"q']
    assert proposed[-2:] == [".c", "td"]


@pytest.mark.parametrize("path", ["hostile", "hostile.txt"])
def test_a_crawled_page_runs_nothing(
    editor: Page, site: str, path: str, watch: PageWatch, picture: Picture
) -> None:
    write_script(editor, SCRIPT.format(site=site).replace(f"{site}/", f"{site}/{path}"))
    run(editor)
    follow(editor)
    tab(editor, "Web")
    if path == "hostile":
        expect(shown(editor).locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
        expect(shown(editor).locator("#sound")).to_have_js_property("naturalWidth", 1)
        shown(editor).locator("#lure").click()
        picture(editor, path)
        tab(editor, "Follows")
        expect(editor.locator("#follows .url").last).to_contain_text("/?<img")
        picture(editor, "follows")
    else:
        expect(shown(editor).locator("pre")).to_contain_text("<h1>Hostile</h1>")
    assert editor.evaluate("window.ran") is None
    forgive(watch, "Content Security Policy")


def test_a_crawled_page_runs_nothing_though_a_proxy_answers_for_its_frame(
    editor: Page, site: str, watch: PageWatch
) -> None:
    answer = "<h1>Bad Gateway</h1>"
    editor.route("**/blank.html", lambda it: it.fulfill(content_type="text/html", body=answer))
    show(editor, f"{site}/hostile")
    expect(shown(editor).locator("#sound")).to_have_js_property("naturalWidth", 1)
    shown(editor).locator("#lure").click()
    assert editor.evaluate("window.ran") is None
    forgive(watch, "Content Security Policy")


def test_a_page_may_hide_what_elements_have_by_nature(editor: Page, site: str) -> None:
    show(editor, f"{site}/hiding")
    editor.get_by_role("button", name="Selector helper").click()
    shown(editor).locator("i").click()
    expect(editor.locator("#matches")).to_have_text("1 element selected")
    expect(editor.locator("#selector")).to_have_value("i")


def show(editor: Page, url: str) -> None:
    """Fetch a page and show it."""
    start = SCRIPT.partition("def on_start")[0]
    lines = f"def on_start(self):\n        self.crawl({url!r}, callback=self.seen)\n\n"
    write_script(editor, f"{start}{lines}    def seen(self, response):\n        pass\n")
    run(editor)
    follow(editor)
    tab(editor, "Web")


def test_a_crawled_page_is_seen_with_pictures_and_leads_nowhere(
    editor: Page, site: str, watch: PageWatch
) -> None:
    with editor.expect_request("**/dot.gif") as asked:
        show(editor, f"{site}/picture?target={site}/one")
    assert "referer" not in asked.value.all_headers()
    page = shown(editor)
    expect(page.locator("h1")).to_have_text("Leading")
    expect(page.locator("meta[http-equiv=refresh]")).to_have_count(0)
    expect(page.locator("#dot")).to_have_js_property("naturalWidth", 1)
    expect(page.locator("#dot")).to_have_css("margin-left", "77px")
    expect(page.locator("h1")).to_have_css("margin-top", "55px")
    watch.asked.remove(f"{site}/dot.gif")  # the one thing that its site is asked for


def test_a_picture_is_seen(editor: Page, site: str) -> None:
    show(editor, f"{site}/dot.gif")
    expect(shown(editor).locator("img")).to_have_js_property("naturalWidth", 1)
    expect(editor.get_by_role("button", name="Selector helper")).to_be_hidden()


def test_a_type_that_is_none_hides_no_page(editor: Page) -> None:
    def typed(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        found["fetch_result"]["headers"] = {"Content-Type": "constructor"}
        route.fulfill(response=answer, json=found)

    run(editor)
    editor.route("**/run", typed)
    follow(editor)
    tab(editor, "HTML")
    expect(editor.locator("#html")).to_contain_text("Page /")
    tab(editor, "Web")
    expect(shown(editor).locator("pre")).to_have_text("This is constructor, which is not shown.")


def test_json_is_laid_out(editor: Page, site: str) -> None:
    show(editor, f"{site}/x.json")
    expect(shown(editor).locator("pre")).to_have_text('{\n  "a": [\n    1\n  ]\n}')


@pytest.mark.parametrize(
    ("target", "directive"), [("{site}/one", "frame-src"), ("{web}/", "frame-ancestors")]
)
def test_nothing_but_the_crawled_page_can_be_in_its_frame(
    editor: Page, site: str, web: Web, target: str, directive: str, watch: PageWatch
) -> None:
    show(editor, f"{site}/")
    expect(shown(editor).locator("h1")).to_be_visible()
    with editor.expect_console_message(lambda said: directive in said.text):
        editor.frames[-1].evaluate(f"location = {target.format(site=site, web=web.url)!r}")
    forgive(watch, "Content Security Policy")


# -- how it is used --------------------------------------------------------------------------


def test_it_is_used_by_keyboard(page: Page, web: Web, site: str) -> None:
    open_editor(page, "keys")
    page.get_by_role("textbox", name="Script").focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(SCRIPT.format(site=site))
    page.keyboard.press("Control+S")
    expect(page.locator("#state")).to_have_text("saved")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#follows li")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.locator("#state")).to_have_text("unsaved")  # it indents
    page.keyboard.press("Control+S")
    expect(page.locator("#state")).to_have_text("saved")
    page.keyboard.press("Control+F")
    page.get_by_label("Search:").fill("index_page")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator(".CodeMirror-dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="WebDAV mode")).to_be_focused()
    expect(page.locator("#state")).to_have_text("saved")
    page.get_by_role("tab", name="Follows").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Messages")).to_be_focused()
    bar = page.get_by_role("separator")
    bar.press("ArrowLeft")
    expect(bar).to_have_attribute("aria-valuenow", "45")
    assert web.project("keys")["script"].startswith("from pyspider")


def test_the_columns_are_as_wide_as_they_are_drawn(page: Page) -> None:
    open_editor(page, "columns")
    box = page.get_by_role("separator").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 204, box["y"] + 100)
    page.mouse.up()
    after = page.get_by_role("separator").bounding_box()
    assert after is not None
    assert abs(after["x"] - box["x"] - 200) < 12


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_it_is_accessible_and_fits(editor: Page, width: int, picture: Picture) -> None:
    editor.set_viewport_size({"width": width, "height": 844})
    run(editor)
    follow(editor)
    for theme in ("light", "dark"):
        for name in ("Follows", "HTML", "Messages", "Web"):
            tab(editor, name)
            check_accessibility(editor)
            check_fits(editor)
        picture(editor, f"{width}-{theme}")
        editor.locator("#theme").click()


@pytest.mark.parametrize("path", ["/", "/login/", "/cluster/editor?project=any", "/cluster/"])
def test_a_style_that_got_into_a_page_does_nothing(page: Page, path: str, watch: PageWatch) -> None:
    page.goto(path)
    with page.expect_console_message(lambda said: "style-src" in said.text):
        page.evaluate("document.body.innerHTML += '<p id=got style=\"margin-left: 77px\">x</p>'")
    expect(page.locator("#got")).to_have_css("margin-left", "0px")
    forgive(watch, "Content Security Policy")


@pytest.mark.parametrize("path", ["/", "/login/", "/cluster/editor?project=any", "/cluster/"])
def test_code_that_got_into_a_page_does_not_run(page: Page, path: str, watch: PageWatch) -> None:
    page.goto(path)
    with page.expect_console_message(lambda said: "script-src" in said.text):
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = 'inline'";
                document.body.append(script);
            }"""
        )
    assert page.evaluate("window.ran") is None
    forgive(watch, "Content Security Policy")


def test_nothing_is_loaded_twice_or_missing(page: Page, watch: PageWatch) -> None:
    open_editor(page, "any")
    files = [url for url in watch.asked if "/static/" in url]
    assert len(files) > 20
    assert len(files) == len(set(files))
