"""What a page of another site can do to the cluster of who looks at it, in a browser."""

import xmlrpc.client

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Web
from tests.support.connected import looking, rpc_url
from tests.support.running_cluster import settings_of

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

POST = """([url, body, type]) =>
    fetch(url, {method: "POST", mode: "no-cors", body: new Blob([body], {type})})
    .then(answer => answer.type, error => String(error))"""


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
