"""Every link of the pages leads to a page, whatever tasks and results there are."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from pyquery import PyQuery
from pyspider.webui.app import app as stock_app

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.live_cluster import LiveCluster
from tests.webui.conftest import Eventually

pytestmark = pytest.mark.zk

HOME = "http://localhost"
ODD_ID = "http://site//a b/?c=%2F&d=ü#e"


@pytest.fixture
def client(ui: ClusterWebUI, cluster: LiveCluster, eventually: Eventually) -> Iterator[Any]:
    """Give a client of a web UI whose scheduler calls a script each second and sends odd tasks."""
    cluster.project("p")
    cluster.database("task").insert("p", ODD_ID, {"url": "u", "status": 1, "schedule": {}})
    for taskid in (ODD_ID, "of a task that was dropped"):
        cluster.database("result").save("p", taskid, "u", {"title": "t"})
    with cluster.scheduler(), ui.joined(cluster.settings, cluster.queues()):
        info = {"taskid": "_on_get_info", "project": "p", "url": "data:,_on_get_info"}
        pack = {**info, "track": {"save": {"min_tick": 1}}}
        slot = slot_of("p", cluster.settings.slots)
        cluster.queues().slot_queues.publish([Message(QueueKind.STATUS, slot, pack)])
        made = stock_app.test_client()
        for each in ("_on_cronjob", "_on_get_info", ODD_ID):
            eventually(lambda each=each: each in active(made))
        yield made


def active(client: Any) -> set[str]:
    """Return the ids of the tasks that the page of active tasks lists."""
    return {task["taskid"] for task in client.get("/active_tasks").get_json(force=True)}


def links(page: Any) -> Iterator[str]:
    """Yield where the links of a page lead, if that is on this site."""
    for each in PyQuery(page.get_data(as_text=True))("a[href]:not([href^='#'])").items():
        target = urlsplit(urljoin(page.request.url, each.attr("href")))
        if target.geturl().startswith(HOME):
            yield target._replace(scheme="", netloc="", fragment="").geturl()


def test_no_link_leads_nowhere(client: Any) -> None:
    left = ["/", "/debug/p", "/results?project=p"]
    found = dict.fromkeys(left, "")
    dead = []
    while left:
        path = left.pop()
        page = client.get(path, follow_redirects=True)
        if page.status_code >= 400:
            dead.append(f"{page.status_code} {path} of {found[path]}")
        elif page.mimetype == "text/html":
            fresh = [link for link in links(page) if link not in found]
            found.update(dict.fromkeys(fresh, path))
            left += dict.fromkeys(fresh)
    assert dead == []
    assert {"/cluster/", "/cluster/tasks"} <= found.keys()
