"""One id leads from a batch to its tasks, through the lines of a JSON log."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.cli.logs import TRAIL, JsonLines
from pyspider_zk.config import Settings
from pyspider_zk.projects.selection import Selection
from tests.support.live_cluster import LiveCluster, living

pytestmark = pytest.mark.zk


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Give what a scheduler writes as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines("scheduler"))
    names = ("scheduler", "pyspider_zk")
    before = {name: logging.getLogger(name).level for name in (*names, TRAIL)}
    for name in names:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger(TRAIL).setLevel(logging.DEBUG)
    yield stream
    for name, level in before.items():
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).setLevel(level)


def test_a_batch_is_followed_to_the_tasks_that_it_began(
    tmp_path: Path,
    cluster_settings: Settings,
    eventually: Callable[..., Any],
    log: io.StringIO,
) -> None:
    with living(LiveCluster(tmp_path, cluster_settings), eventually) as cluster:
        (scheduler,) = cluster.running
        service = scheduler._services.batch_service()
        service.submit("start", Selection(names=("b", "c")), batch="mine")
        eventually(lambda: any(" is done" in each["message"] for each in lines(log)))
        eventually(lambda: started(log) == {"b", "c"})
    of_batch = [each for each in lines(log) if each.get("batch") == "mine"]
    assert any(each["message"].endswith(" begins") for each in of_batch)
    assert {each["job"].partition("-")[0] for each in of_batch} == {"entry"}
    assert {each["project"] for each in of_batch if "project" in each} == {"b", "c"}


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(each) for each in log.getvalue().splitlines()]


def started(log: io.StringIO) -> set[str]:
    """Return the projects of the tasks ``on_start`` that were logged."""
    return {each["project"] for each in lines(log) if each.get("task") == "on_start"}
