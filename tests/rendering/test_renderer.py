"""Pages as Chromium shows them, by the protocol of PhantomJS."""

import pytest

from pyspider_zk.rendering import page as rendered_page
from tests.rendering.conftest import RendererPort, ScriptedSite, rendering

pytestmark = pytest.mark.browser

PATIENCE = 30  # seconds; a starved machine takes some to open a page

BUILT = """<!DOCTYPE html><title>built</title><div id="text">loading</div>
<script>fetch("/data").then(answer => answer.text()).then(text => {
    document.getElementById("text").textContent = text;
})</script>"""


def test_a_page_is_what_its_scripts_make_of_it(renderer: RendererPort, site: ScriptedSite) -> None:
    site.page("/data", "done")
    url = site.page("/built", BUILT)
    page = renderer.render(url, save={"a": 1})
    assert page["status_code"] == 200, page
    assert '<div id="text">done</div>' in page["content"]
    assert page["content"].startswith("<!DOCTYPE html>")
    assert (page["orig_url"], page["url"], page["save"]) == (url, url, {"a": 1})
    assert page["error"] is None
    assert page["time"] > 0


def test_a_fault_of_the_site_is_told_as_it_is(renderer: RendererPort, site: ScriptedSite) -> None:
    url = site.page("/gone", "<p>gone</p>", 410, X_Why="old")
    page = renderer.render(url)
    assert (page["status_code"], page["headers"]["X_Why"]) == (410, "old")
    assert "<p>gone</p>" in page["content"]


def test_a_redirect_is_followed(renderer: RendererPort, site: ScriptedSite) -> None:
    begin = site.page("/begin", "", 302, Location="/end")
    end = site.page("/end", "<p>end</p>")
    page = renderer.render(begin)
    assert (page["status_code"], page["orig_url"], page["url"]) == (200, begin, end)
    assert "<p>end</p>" in page["content"]


def test_a_page_that_leads_on_by_script_is_the_one_that_it_leads_to(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    begin = site.page("/begin", "<script>location = '/end'</script>")
    end = site.page("/end", "<p>end</p>")
    page = renderer.render(begin)
    assert (page["status_code"], page["url"], page["error"]) == (200, end, None)
    assert "<p>end</p>" in page["content"]


def test_the_script_runs_when_the_page_is_loaded(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    url = site.page("/", "<p id=p>told</p>")
    script = "function() { return {text: document.getElementById('p').textContent, n: [1, null]}; }"
    page = renderer.render(url, js_script=script)
    assert page["js_script_result"] == {"text": "told", "n": [1, None]}


@pytest.mark.usefixtures("long_quiet")
@pytest.mark.parametrize("when", [{}, {"js_run_at": "document-end"}])
def test_what_the_script_causes_is_waited_for(
    renderer: RendererPort, site: ScriptedSite, when: dict[str, str]
) -> None:
    site.page("/more", "<p>more</p>")
    url = site.page("/", "<body></body>")
    script = """() => { setTimeout(() => fetch('/more').then(a => a.text()).then(
        text => { document.body.innerHTML = text; }), 500); }"""
    assert "<p>more</p>" in renderer.render(url, js_script=script, **when)["content"]


def test_a_script_may_wait_for_a_promise(renderer: RendererPort, site: ScriptedSite) -> None:
    script = "async () => (await fetch('/data')).text()"
    site.page("/data", "waited")
    assert renderer.render(site.page("/", ""), js_script=script)["js_script_result"] == "waited"


def test_a_policy_of_the_page_does_not_keep_the_script_away(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    policy = {"Content-Security-Policy": "default-src 'none'"}
    url = site.page("/", "<p>closed</p>", **policy)
    for when in ("document-start", "document-end"):
        page = renderer.render(url, js_script="() => 1 + 1", js_run_at=when)
        assert page["js_script_result"] == 2, when


@pytest.mark.usefixtures("long_quiet")
def test_a_script_at_the_start_runs_once_before_those_of_the_page(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    begin = """<iframe src="/frame"></iframe><script>
        sessionStorage.seen = (sessionStorage.seen || "") + window.mark;
        if (sessionStorage.seen == "set") setTimeout(() => { location = "/"; }, 200);
        document.title = sessionStorage.seen;</script>"""
    url, _ = site.page("/", begin), site.page("/frame", "framed")
    script = "function() { window.mark = 'set'; return location.pathname; }"
    page = renderer.render(url, js_script=script, js_run_at="document-start")
    assert page["js_script_result"] == "/"
    assert "<title>setundefined</title>" in page["content"]


@pytest.mark.parametrize("said", ["'x'", "'['.repeat(1e5)", "'9'.repeat(1e4)"])
def test_what_a_page_says_instead_of_the_script_is_passed_over(
    renderer: RendererPort, site: ScriptedSite, said: str
) -> None:
    begin = f"<script>pyspiderScriptResult({said}); location = '/next'</script>"
    url, _ = site.page("/", begin), site.page("/next", "<p>there</p>")
    script = """() => {
        const told = {at: location.pathname};
        if (told.at == "/") told.itself = told;  // which cannot be told
        return told;
    }"""
    page = renderer.render(url, js_script=script, js_run_at="document-start")
    assert page["js_script_result"] == {"at": "/next"}
    assert "<p>there</p>" in page["content"]


@pytest.mark.parametrize("when", ["document-start", "document-end"])
@pytest.mark.parametrize("script", ["() => { throw new Error('mine') }", "no script at all"])
def test_a_faulty_script_gives_no_result_and_the_page(
    renderer: RendererPort, site: ScriptedSite, script: str, when: str
) -> None:
    page = renderer.render(site.page("/", "<p>there</p>"), js_script=script, js_run_at=when)
    assert (page["status_code"], page["js_script_result"]) == (200, None)
    assert "<p>there</p>" in page["content"]


def test_the_viewport_is_the_tasks(renderer: RendererPort, site: ScriptedSite) -> None:
    script = "() => [innerWidth, innerHeight]"
    url = site.page("/", "")
    assert renderer.render(url, js_script=script)["js_script_result"] == [1024, 2304]
    sides = {"js_viewport_width": 555, "js_viewport_height": 444}
    assert renderer.render(url, js_script=script, **sides)["js_script_result"] == [555, 444]


@pytest.mark.parametrize(("loads", "count"), [(None, 1), (True, 1), (False, 0)])
def test_images_are_loaded_unless_they_are_not_wanted(
    renderer: RendererPort, site: ScriptedSite, loads: bool | None, count: int
) -> None:
    url = site.page("/", "<img src='/dot.gif'>")
    renderer.render(url, **({} if loads is None else {"load_images": loads}))
    assert len(site.of("/dot.gif")) == count


def test_method_body_headers_and_cookies_are_the_tasks(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    url = site.page("/form", "<script>document.title = navigator.userAgent</script>")
    page = renderer.render(
        url,
        method="POST",
        data="a=1&b=\u4e2d",
        headers={"User-Agent": "tried", "X-Of-Task": "yes", "Cookie": "c=d; e=f"},
    )
    (asked,) = site.of("/form")
    assert (asked.method, asked.body.decode()) == ("POST", "a=1&b=\u4e2d")
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (asked.headers["user-agent"], asked.headers["x-of-task"]) == ("tried", "yes")
    assert asked.headers["cookie"] == "c=d; e=f"
    assert "<title>tried</title>" in page["content"]
    assert page["cookies"] == {"c": "d", "e": "f"}


def test_cookies_of_the_site_are_told(renderer: RendererPort, site: ScriptedSite) -> None:
    url = site.page("/", "<script>document.cookie = 'b=2'</script>", **{"Set-Cookie": "a=1"})
    assert renderer.render(url)["cookies"] == {"a": "1", "b": "2"}


def test_a_page_knows_nothing_of_the_one_before(renderer: RendererPort, site: ScriptedSite) -> None:
    script = """() => {
        const was = document.cookie + (localStorage.a || '');
        localStorage.a = 1;
        return was;
    }"""
    url = site.page("/", "", **{"Set-Cookie": "a=1"})
    for _ in range(2):
        assert renderer.render(url, js_script=script)["js_script_result"] == "a=1"


def test_what_a_task_sends_stays_with_its_origin(
    open_renderer: RendererPort, site: ScriptedSite, other_site: ScriptedSite
) -> None:
    secret = {"Authorization": "Bearer secret", "X-Mine": "1", "Accept-Language": "de"}
    embeds = f"<script src='/own.js'></script><script src='{other_site.url}/far.js'></script>"
    open_renderer.render(site.page("/", embeds), headers=secret)
    leads = site.page("/leads", "", 302, Location=f"{other_site.url}/led")
    for trusted in (False, True):
        open_renderer.render(leads, headers=secret, location_trusted=trusted)
    (own,) = site.of("/own.js")
    assert own.headers["authorization"] == "Bearer secret"
    told = {each.path: each.headers for each in other_site.asked[:2]}
    assert sorted(told) == ["/far.js", "/led"]
    assert not any({"authorization", "x-mine"} & set(headers) for headers in told.values())
    assert told["/led"]["accept-language"] == "de"
    assert other_site.asked[-1].headers["authorization"] == "Bearer secret"


def test_a_body_stays_with_its_origin(
    open_renderer: RendererPort, site: ScriptedSite, other_site: ScriptedSite
) -> None:
    near = site.page("/near", "", 307, Location="/end")
    site.page("/end", "<p>end</p>")
    assert "<p>end</p>" in open_renderer.render(near, method="POST", data="own")["content"]
    assert site.of("/end")[0].body == b"own"
    leads = site.page("/leads", "", 307, Location=f"{other_site.url}/led")
    page = open_renderer.render(leads, method="POST", data="own")
    assert page["status_code"] == 599
    assert "a body stays with its origin" in page["error"]
    assert other_site.asked == []


def test_a_page_that_comes_too_late_has_no_answer(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    url = f"{site.url}/late"
    site.pages["/late"] = lambda _: (site.goes_on.wait(60), (200, {}, "late"))[1]
    page = renderer.render(url, timeout=PATIENCE)
    site.goes_on.set()
    assert (page["status_code"], page["js_script_result"]) == (599, None)
    assert page["error"] == f"no answer within {PATIENCE} s"


def test_a_page_that_never_ends_is_taken_as_it_is(
    renderer: RendererPort, site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendered_page, "GRACE", 30.0)
    url = site.page("/", "<p>there</p><script>setInterval(() => fetch('/'), 100)</script>")
    page = renderer.render(url, timeout=PATIENCE)
    assert page["status_code"] == 200
    assert "<p>there</p>" in page["content"]


def test_a_page_whose_script_holds_it_fails_and_holds_no_other(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    held = site.page("/held", "<script>for (;;);</script>")
    page = renderer.render(held, timeout=PATIENCE)
    assert page["status_code"] == 599
    assert page["error"] == "the page does not answer: its script runs on"
    assert renderer.render(site.page("/", "<p>free</p>"))["status_code"] == 200


def test_a_download_is_an_error_and_an_empty_page_none(
    renderer: RendererPort, site: ScriptedSite
) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    page = renderer.render(site.page("/file", "bytes", **kind))
    assert (page["status_code"], page["content"]) == (200, "")
    assert "ownload" in page["error"]
    page = renderer.render(site.page("/empty", "", 204))
    assert (page["status_code"], page["content"], page["error"]) == (204, "", None)


def test_dialogs_and_windows_hold_nothing(renderer: RendererPort, site: ScriptedSite) -> None:
    text = "<script>alert(1); window.open('/'); confirm(2)</script><p>there</p>"
    assert "<p>there</p>" in renderer.render(site.page("/", text))["content"]


def test_a_large_page_fails_by_name(site: ScriptedSite) -> None:
    url = site.page("/", "<script>document.write('x'.repeat(100000))</script>")
    with rendering(page_limit=50_000) as renderer:
        page = renderer.render(url)
    assert page["status_code"] == 599
    assert page["error"] == "the page has more than 50000 bytes (page_limit)"
