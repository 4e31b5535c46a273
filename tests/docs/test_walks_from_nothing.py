"""Walks through the pages that begin in an empty folder."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.walk import Ground, walk
from tests.support.ports import own_port

FROM_NOTHING = [
    "docs/tutorial/first-cluster.md",
    "docs/how-to/install.md",
    "docs/how-to/start-and-stop.md",
    "docs/how-to/monitor.md",
]

pytestmark = [
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.usefixtures("zookeeper", "redis_server"),  # skip where they are missing
]


@pytest.mark.parametrize("page", FROM_NOTHING)
def test_a_page_that_begins_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    webui, site = own_port(), own_port()
    renamed = {
        "pyspider-zk up": f"pyspider-zk up --webui-port {webui}",
        "127.0.0.1:5000": f"127.0.0.1:{webui}",
        "127.0.0.1:8000": f"127.0.0.1:{site}",
        "http.server 8000": f"http.server {site}",
        "~/pyspider-zk": str(ROOT),
        "~/crawl": ".",
    }
    walk(page, Ground(tmp_path, renamed))
