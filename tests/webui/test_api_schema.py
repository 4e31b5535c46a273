"""What the OpenAPI document says is true: schemathesis asks a real web UI at a real cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from pyspider.webui.app import app as stock_app
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pyspider_zk.config import Settings
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.api_requests import draw_requests
from tests.support.live_cluster import LiveCluster
from tests.support.seed import SEED
from tests.webui.conftest import Eventually

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

FEW, MANY = 5, 60  # examples per operation
PROJECTS = [("running", "RUNNING", ""), ("locked", "STOP", "lock"), ("stopped", "STOP", "g")]


@pytest.fixture
def api(
    ui: ClusterWebUI,
    tmp_path: Path,
    cluster_settings: Settings,
    redis_url: str,
    eventually: Eventually,
) -> Iterator[Any]:
    """Give the document of a cluster that has projects, a scheduler and batches."""
    cluster = LiveCluster(tmp_path, cluster_settings, redis_url)
    for name, status, group in PROJECTS:
        cluster.project(name, status, group)
    with cluster.scheduler(), ui.joined(cluster.settings, cluster.queues()):
        client = stock_app.test_client()
        eventually(lambda: client.get("/api/v1/projects/running").get_json()["owner"] == 0)
        client.post("/api/v1/batches", json={"operation": "stop", "names": ["stopped"], "id": "b"})
        yield schemathesis.openapi.from_wsgi("/api/v1/openapi.json", stock_app)


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
@pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")
def test_every_answer_is_as_documented(api: Any, examples: int) -> None:
    print(f"SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    for operation in api.get_all_operations():
        check(operation.ok(), examples)


def check(operation: Any, examples: int) -> None:
    """Ask an operation many things, right and wrong ones."""

    # A form cannot tell which projects there are or may be, nor that a filter may not be empty.
    excluded = [positive_data_acceptance] if operation.method in ("post", "put") else []
    draw_requests(
        operation,
        SEED,
        examples,
        lambda case: case.call_and_validate(excluded_checks=excluded),
    )
