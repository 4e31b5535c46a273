"""pyspider's own tests of PhantomJS, with its fetcher and our renderer."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspider.fetcher.tornado_fetcher import Fetcher
from pyspider.libs.response import rebuild_response

from tests.rendering.conftest import RendererPort, ScriptedSite, SiteRequest

pytestmark = pytest.mark.browser

TASK: dict[str, Any] = {
    "taskid": "taskid",
    "project": "project",
    "url": "",
    "fetch": {
        "method": "GET",
        "headers": {"Cookie": "a=b", "a": "b"},
        "cookies": {"c": "d"},
        "timeout": 60,
        "save": "abc",
        "fetch_type": "js",
    },
    "process": {"callback": "callback", "save": [1, 2, 3]},
}
AJAX = """<html><body><div class=status>loading</div><div class=ua></div><div class=ip></div>
<script>
var request = new XMLHttpRequest();
request.open("GET", "/get");
request.onload = function() {
    var data = JSON.parse(request.responseText);
    document.querySelector(".ua").innerText = data.headers["user-agent"];
    document.querySelector(".status").innerText = "done";
};
request.send();
</script></body></html>"""

Fetch = Callable[..., Any]


def echo(asked: SiteRequest) -> tuple[int, dict[str, str], str]:
    """Answer with what was asked, as httpbin does."""
    told = {"headers": asked.headers, "body": asked.body.decode(errors="replace")}
    return 200, {"Content-Type": "application/json"}, json.dumps(told)


@pytest.fixture
def fetcher(renderer: RendererPort) -> Iterator[Any]:
    fetcher = Fetcher(None, None)
    fetcher.phantomjs_proxy = f"127.0.0.1:{renderer.port}"
    yield fetcher
    fetcher.close()


@pytest.fixture
def fetch(fetcher: Any) -> Fetch:
    def fetched(url: str, **more: Any) -> Any:
        task = copy.deepcopy(TASK) | {"url": url}
        headers = task["fetch"]["headers"] | more.pop("headers", {})
        task["fetch"] |= {"headers": headers, **more}
        return fetcher.sync_fetch(task)

    return fetched


@pytest.mark.parametrize("kind", ["js", "phantomjs", "chrome", "puppeteer"])
def test_70_phantomjs_url(fetch: Fetch, site: ScriptedSite, kind: str) -> None:
    site.pages["/get"] = echo
    result = fetch(f"{site.url}/get", fetch_type=kind)
    response = rebuild_response(result)
    assert response.status_code == 200, result
    assert (response.orig_url, response.save) == (f"{site.url}/get", "abc")
    data = json.loads(response.doc("pre").text())
    assert data["headers"]["a"] == "b"
    assert "c=d" in data["headers"]["cookie"]


def test_75_phantomjs_robots_and_post(fetch: Fetch, site: ScriptedSite) -> None:
    site.pages["/post"] = echo
    site.page("/robots.txt", "User-agent: *\nDisallow: /deny", **{"Content-Type": "text/plain"})
    result = fetch(f"{site.url}/post", method="POST", data="binux")
    assert json.loads(rebuild_response(result).doc("pre").text())["body"] == "binux"
    fetch(f"{site.url}/post", method="POST", data=b"\x89PNG")
    assert site.of("/post")[1].body == b"\x89PNG"
    assert fetch(f"{site.url}/deny", robots_txt=True)["status_code"] == 403


def test_80_phantomjs_timeout(fetch: Fetch, site: ScriptedSite) -> None:
    site.pages["/delay"] = lambda asked: (site.goes_on.wait(60), echo(asked))[1]
    result = fetch(f"{site.url}/delay", timeout=3)
    site.goes_on.set()
    assert result["status_code"] == 599
    assert "js_script_result" in result


def test_90_phantomjs_js_script(fetch: Fetch, site: ScriptedSite) -> None:
    url = site.page("/html", "<html><body><h1>Herman Melville - Moby-Dick</h1></body></html>")
    result = fetch(url, js_script='function() { document.write("binux") }')
    assert result["status_code"] == 200
    assert "binux" in result["content"]


def test_a100_phantomjs_sharp_url(fetch: Fetch, site: ScriptedSite) -> None:
    site.pages["/get"] = echo
    url = site.page("/pyspider/ajax.html", AJAX)
    result = fetch(f"{url}#sharp", headers={"User-Agent": "pyspider-test"})
    assert (result["status_code"], result["url"]) == (200, f"{url}#sharp")
    assert "done" in result["content"]
    assert "loading" not in result["content"]
    assert "pyspider-test" in result["content"]


def test_zzzz_issue375(fetch: Fetch, fetcher: Any, site: ScriptedSite) -> None:
    fetcher.phantomjs_proxy = "127.0.0.1:1"
    assert fetch(f"{site.url}/get", connect_timeout=0.1)["status_code"] == 599


@pytest.mark.parametrize("kind", ["js", "phantomjs", "chrome", "puppeteer"])
def test_without_a_renderer_a_task_fails_and_says_what_is_missing(
    fetch: Fetch, fetcher: Any, kind: str
) -> None:
    fetcher.phantomjs_proxy = None
    result = fetch("http://127.0.0.1:1/", fetch_type=kind)
    assert result["status_code"] == 501
    assert "pyspider-zk renderer" in result["error"]
    assert "--phantomjs-proxy" in result["error"]
