"""pyspider's web UI, fed by a real cluster."""

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspider.webui  # noqa: F401 - it registers the views
import pytest
from pyspider.database import connect_database
from pyspider.webui.app import app as stock_app

from pyspider_zk.config import Settings
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.live_cluster import LiveCluster

NAMES = ["newtask_queue", "status_queue", "scheduler2fetcher", "fetcher2processor"]
NAMES += ["processor2result"]

Eventually = Callable[..., None]


@pytest.fixture
def cluster(tmp_path: Path, cluster_settings: Settings) -> LiveCluster:
    return LiveCluster(tmp_path, cluster_settings)


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[ClusterWebUI]:
    """Give the web UI as pyspider prepares it; its application is one for the whole process."""
    before = dict(stock_app.config)
    made = ClusterWebUI(stock_app)
    for kind in ("task", "project", "result"):
        path = f"sqlite+{kind}db:///{tmp_path}/{kind}.db"
        made.config[f"{kind}db"] = connect_database(path)
    made.config["queues"] = {name: queue.Queue() for name in NAMES}
    yield made
    stock_app.config.clear()
    stock_app.config.update(before)


@pytest.fixture
def client(ui: ClusterWebUI, cluster: LiveCluster) -> Iterator[Any]:
    """Give a client of a web UI whose cluster has no scheduler."""
    with cluster.scheduler():
        pass
    with ui.joined(cluster.settings, cluster.queues()):
        yield stock_app.test_client()
