"""The editor, in a browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.cluster_page import forgive
from tests.browser.conftest import SCRIPT, PageWatch, Web, save, write_script

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]


def tab(page: Page, name: str) -> None:
    page.locator(f"#tab-control li[data-id=tab-{name}]").click()


def run(page: Page) -> None:
    page.locator("#run-task-btn").click()


@pytest.fixture
def editor(page: Page, site: str, request: pytest.FixtureRequest) -> Page:
    """Give an editor with the script of a new project."""
    page.goto(f"/debug/{request.node.originalname.removeprefix('test_')[:32]}")
    write_script(page, SCRIPT.format(site=site))
    return page


def test_a_script_is_written_and_saved(editor: Page, web: Web, site: str, picture: Picture) -> None:
    save(editor)
    picture(editor)
    saved = web.project("a_script_is_written_and_saved")
    assert saved["script"] == SCRIPT.format(site=site)
    editor.reload()
    expect(editor.locator("#python-editor .cm-def").first).to_have_text("Handler")


def test_steps_are_run_from_the_start_to_a_result(
    editor: Page, site: str, picture: Picture
) -> None:
    run(editor)
    tab(editor, "follows")
    follow = editor.locator(".newtask")
    expect(follow).to_have_count(1)
    expect(follow.locator(".task-url")).to_have_text(f"{site}/")
    follow.locator(".task-more").click()
    expect(editor.locator(".task-show")).to_contain_text("index_page")
    picture(editor, "start")

    follow.locator(".task-run").click()
    expect(editor.locator(".newtask")).to_have_count(2)
    tab(editor, "web")
    shown = editor.frame_locator("#tab-web iframe")
    expect(shown.locator("h1")).to_have_text("Page /")
    picture(editor, "web")
    tab(editor, "html")
    expect(editor.locator("#tab-html .cm-tag").first).to_be_visible()
    picture(editor, "html")

    tab(editor, "follows")
    editor.locator(".newtask .task-run").first.click()
    expect(editor.locator("#python-log pre")).to_contain_text(f"seen {site}/one")
    expect(editor.locator("#python-log pre")).to_contain_text("'title': 'page /one'")
    picture(editor, "result")


def test_the_task_is_laid_out_and_its_faults_are_marked(editor: Page, picture: Picture) -> None:
    task = editor.locator("#task-editor")
    expect(task.locator(".CodeMirror-line")).to_have_count(8)
    task.locator(".CodeMirror-code").click()
    editor.keyboard.press("Control+End")
    editor.keyboard.insert_text(" not json")
    expect(task.locator(".CodeMirror-lint-mark-error")).not_to_have_count(0)
    picture(editor)
    editor.locator("#undo-btn").click()
    expect(task.locator(".CodeMirror-lint-mark-error")).to_have_count(0)


def test_an_error_of_the_script_is_shown(editor: Page, picture: Picture) -> None:
    write_script(editor, "no python")
    run(editor)
    expect(editor.locator("#python-log pre")).to_contain_text("SyntaxError")
    picture(editor)


def test_the_helper_finds_the_selector_of_what_is_clicked(editor: Page, picture: Picture) -> None:
    run(editor)
    tab(editor, "follows")
    editor.locator(".newtask .task-run").click()
    tab(editor, "web")
    shown = editor.frame_locator("#tab-web iframe")
    expect(shown.locator("h1")).to_be_visible()
    editor.locator("#J-enable-css-selector-helper").click()
    shown.locator("b").click()
    expect(editor.locator("#css-selector-helper .element")).not_to_have_count(0)
    editor.locator("#css-selector-helper .copy-selector").click()
    expect(editor.locator(".copy-selector-input")).to_have_value("b")
    picture(editor)


@pytest.mark.parametrize("path", ["hostile", "hostile.txt"])
def test_a_crawled_page_runs_nothing(
    editor: Page, site: str, path: str, watch: PageWatch, picture: Picture
) -> None:
    write_script(editor, SCRIPT.format(site=site).replace(f"{site}/", f"{site}/{path}"))
    run(editor)
    tab(editor, "follows")
    editor.locator(".newtask .task-run").click()
    tab(editor, "web")
    shown = editor.frame_locator("#tab-web iframe")
    expect(shown.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
    expect(shown.locator("#sound")).to_have_js_property("naturalWidth", 1)
    shown.locator("#lure").click()
    picture(editor, path)
    tab(editor, "follows")
    if path == "hostile":
        expect(editor.locator(".newtask .task-url").last).to_contain_text("/?<img")
        picture(editor, "follows")
    assert editor.evaluate("window.ran") is None
    forgive(watch, "Content Security Policy")


def show(editor: Page, url: str) -> None:
    """Fetch a page and show it."""
    start = SCRIPT.partition("def on_start")[0]
    lines = f"def on_start(self):\n        self.crawl({url!r}, callback=self.seen)\n\n"
    write_script(editor, f"{start}{lines}    def seen(self, response):\n        pass\n")
    run(editor)
    tab(editor, "follows")
    editor.locator(".newtask .task-run").click()
    tab(editor, "web")


def test_a_crawled_page_is_seen_with_pictures_and_leads_nowhere(
    editor: Page, site: str, watch: PageWatch
) -> None:
    show(editor, f"{site}/picture?target={site}/one")
    shown = editor.frame_locator("#tab-web iframe")
    expect(shown.locator("h1")).to_have_text("Leading")
    expect(shown.locator("meta[http-equiv=refresh]")).to_have_count(0)
    expect(editor.locator("#tab-web iframe")).to_have_attribute("style", re.compile("height"))
    expect(shown.locator("#dot")).to_have_js_property("naturalWidth", 1)
    expect(shown.locator("#dot")).to_have_css("margin-left", "77px")
    expect(shown.locator("h1")).to_have_css("margin-top", "55px")
    watch.asked.remove(f"{site}/dot.gif")  # the one thing that its site is asked for


@pytest.mark.parametrize(
    ("target", "directive"), [("{site}/one", "frame-src"), ("{web}/", "frame-ancestors")]
)
def test_nothing_but_the_crawled_page_can_be_in_its_frame(
    editor: Page, site: str, web: Web, target: str, directive: str, watch: PageWatch
) -> None:
    target = target.format(site=site, web=web.url)
    # What is plain text is written as it came, so this one does lead on.
    with editor.expect_console_message(lambda said: directive in said.text):
        show(editor, f"{site}/page.txt?target={target}")
    forgive(watch, "Content Security Policy")


@pytest.mark.parametrize("path", ["/", "/debug/any", "/cluster/results?project=any", "/cluster/"])
def test_a_style_that_got_into_a_page_does_nothing(page: Page, path: str, watch: PageWatch) -> None:
    page.goto(path)
    with page.expect_console_message(lambda said: "style-src" in said.text):
        page.evaluate("document.body.innerHTML += '<p id=got style=\"margin-left: 77px\">x</p>'")
    expect(page.locator("#got")).to_have_css("margin-left", "0px")
    forgive(watch, "Content Security Policy")


@pytest.mark.parametrize("path", ["/", "/debug/any", "/cluster/results?project=any", "/cluster/"])
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


def test_nothing_is_loaded_twice_or_missing(editor: Page, watch: PageWatch) -> None:
    del editor
    files = [url for url in watch.asked if "/static/" in url]
    assert len(files) > 20
    assert len(files) == len(set(files))
