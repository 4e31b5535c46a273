"""Metrics of all components of a machine, found by the files that they write."""

import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import COMPONENTS, FAMILIES
from pyspider_zk.rendering.chromium import chromium_program
from tests.metrics.reading import Numbers, Series, family_of, get, parsed, undeclared, value
from tests.support.needed import skip_without_needed
from tests.support.ports import own_port
from tests.support.processes import process
from tests.support.running_cluster import up

pytestmark = [
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.usefixtures("zookeeper", "redis_server"),
]

STARTED_BY_ALL = set(COMPONENTS) - {"renderer"}

Eventually = Callable[..., Any]


def targets(data: Path) -> list[tuple[str, int]]:
    """Return component and port of each process."""
    groups = [json.loads(file.read_text())[0] for file in (data / "metrics").glob("*.json")]
    return [
        (group["labels"]["component"], int(group["targets"][0].rpartition(":")[2]))
        for group in groups
    ]


def answers(found: list[tuple[str, int]]) -> dict[str, Numbers]:
    """Return what each kind of component tells, once ready; some may not serve yet."""
    ready: dict[str, Numbers] = {}
    for component, port in found:
        try:
            if get(port, "/readyz").status == 200:
                told = parsed(get(port, "/metrics").text)
                ready.setdefault(component, {}).update(told)
        except OSError:
            continue
    return ready


def all_told(data: Path, kinds: Collection[str]) -> dict[str, Numbers]:
    """Return what components of these kinds tell, once the leader has counted the web UI."""
    told = answers(targets(data))
    scheduler = told.get("scheduler", {})
    webui = Series(families.CLUSTER_COMPONENTS.full_name, frozenset({("component", "webui")}))
    counted = scheduler.get(webui) == 1
    return told if set(told) == set(kinds) and counted else {}


def check(told: dict[str, Numbers]) -> None:
    """Compare what a cluster tells with what is declared."""
    names = {
        family.name
        for found in told.values()
        for series in found
        if (family := family_of(series.name))
    }
    assert names == {family.name for family in FAMILIES}
    for found in told.values():
        assert undeclared(found) == []
    assert value(told["scheduler"], families.QUEUE_LENGTH, queue="fetcher2processor") == 0


def test_up_gives_each_process_a_port_that_a_file_tells(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_METRICS", "127.0.0.1:9464")
    with skip_without_needed():
        chromium_program(os.environ)
    with up(tmp_path, "--schedulers", "2", "--renderers", "1"):
        told = eventually(lambda: all_told(tmp_path / "data", COMPONENTS), within=180)
        assert len(targets(tmp_path / "data")) == 7
        check(told)
        assert "Metrics: see data/metrics" in (tmp_path / "out.txt").read_text()
    assert targets(tmp_path / "data") == []


def test_all_gives_each_component_a_port_that_a_file_tells(
    tmp_path: Path,
    eventually: Eventually,
    zookeeper: ZooKeeperServer,
    zk_root: str,
    redis_url: str,
) -> None:
    config = {
        "zookeeper": {"hosts": zookeeper.address, "root": zk_root, "metrics": "127.0.0.1:9464"},
        "message_queue": redis_url,
        "webui": {"port": own_port()},
        "scheduler": {"xmlrpc_port": 0},
        "fetcher": {"xmlrpc_port": 0},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    with process("--config", "config.json", "all", folder=tmp_path):
        check(eventually(lambda: all_told(tmp_path / "data", STARTED_BY_ALL), within=180))
