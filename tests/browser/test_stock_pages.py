"""pyspider's page of results, in a browser; and the page of another site."""

import xmlrpc.client
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SCRIPT, Web
from tests.support.connected import looking, rpc_url
from tests.support.running_cluster import settings_of

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Picture = Callable[..., None]
Eventually = Callable[..., None]

POST = """([url, body, type]) =>
    fetch(url, {method: "POST", mode: "no-cors", body: new Blob([body], {type})})
    .then(answer => answer.type, error => String(error))"""


# --- results -------------------------------------------------------------------------


@pytest.fixture
def crawled(page: Page, web: Web, site: str, eventually: Callable[..., None]) -> str:
    """Give a project that ran, once for all tests."""
    if web.project("crawled") is None:
        web.add_project("crawled", script=SCRIPT.format(site=site), status="RUNNING")
        assert page.request.post("/run", form={"project": "crawled"}).json() == {"result": True}
    eventually(lambda: web.results("crawled") == 2)
    return "crawled"


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
