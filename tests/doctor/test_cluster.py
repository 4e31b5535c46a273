"""What the doctor finds about the processes of a real cluster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.records import Component, ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.doctor.findings import Grade
from tests.doctor.conftest import Examine, graded
from tests.support.connected import looking
from tests.support.live_cluster import LiveCluster, living
from tests.support.ports import own_port

pytestmark = pytest.mark.zk

Eventually = Callable[..., None]


def test_a_scheduler_with_a_secret_is_closed_to_strangers(
    examined: Examine, cluster_settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    with living(LiveCluster(tmp_path, cluster_settings), eventually):
        found = examined("cluster", cluster_settings)

    told = graded(found, Grade.OK)
    assert "1 schedulers, protocol 1" in told
    assert "everything runs version" in told
    assert "is closed to strangers" in told
    assert "ZooKeeper's clock agrees" in told
    assert graded(found, Grade.FAILED) == ""


def test_a_scheduler_without_a_secret_is_open(
    examined: Examine, cluster_settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    settings = replace(cluster_settings, secret="")
    with living(LiveCluster(tmp_path, settings), eventually):
        found = examined("cluster", settings)

    warned = graded(found, Grade.WARNING)
    assert "has no secret" in warned
    assert "is open: every program on this machine may change and delete" in warned


def test_a_fetcher_without_a_secret_is_open_to_what_fetchers_do(
    examined: Examine, cluster_settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    settings = replace(cluster_settings, secret="")
    with (
        living(LiveCluster(tmp_path, settings), eventually),
        looking(settings) as directory,
    ):
        ((_, member),) = directory.members().items()
        fetcher = Component("box-2", 22, "0.1.0", 1000.0, member.address)  # answers as one does
        with Presence(settings, ComponentKind.FETCHER, fetcher):
            found = examined("cluster", settings)

    (told,) = (each.text for each in found if "XML-RPC of a fetcher" in each.text)
    assert "every program on this machine may make it fetch anything" in told
    assert "project" not in told


def test_a_web_ui_that_is_away_and_of_another_version(
    examined: Examine, cluster_settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    page = Component("box-2", 22, "0.0.9", 1000.0, f"127.0.0.1:{own_port()}")
    with (
        living(LiveCluster(tmp_path, cluster_settings), eventually),
        Presence(cluster_settings, ComponentKind.WEBUI, page),
    ):
        found = examined("cluster", cluster_settings)

    warned = graded(found, Grade.WARNING)
    assert f"the web UI at {page.address} cannot be reached from here" in warned
    assert "webui on box-2, pid 22 has 0.0.9" in warned


def test_no_cluster_is_a_failure(examined: Examine, cluster_settings: Settings) -> None:
    assert "there is no cluster at" in graded(examined("cluster", cluster_settings), Grade.FAILED)
