"""What the doctor finds about real ZooKeepers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.doctor.findings import Grade
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.protection import protect
from tests.doctor.conftest import NO_HURRY, Examine, graded
from tests.support.ports import own_port
from tests.support.secured_servers import authority, tls_zookeeper

pytestmark = pytest.mark.zk


@pytest.fixture
def root(cluster_settings: Settings) -> Iterator[Connection]:
    """Make the root without a login; give a connection."""
    connection = Connection(cluster_settings)
    connection.start()
    try:
        connection.ensure([f"{cluster_settings.root}/members"])
        yield connection
    finally:
        connection.stop()


def with_login(settings: Settings, password: str = "a password of the tests") -> Settings:  # noqa: S107
    return replace(settings, username="crawl", password=password)


@pytest.mark.usefixtures("root")
def test_a_protected_tree_is_well(examined: Examine, cluster_settings: Settings) -> None:
    settings = with_login(cluster_settings)
    owner = Connection(settings)
    owner.start()
    protect(owner, settings.root)
    owner.stop()

    found = examined("ZooKeeper", replace(settings, **NO_HURRY))

    assert {each.grade for each in found} == {Grade.OK}, found
    told = graded(found, Grade.OK)
    assert "one server, on this machine" in told
    assert "version 3." in told
    assert "'crawl' (digest) is accepted" in told
    assert "belongs to its login alone" in told


@pytest.mark.usefixtures("root")
def test_a_tree_without_a_login_is_warned_of(examined: Examine, cluster_settings: Settings) -> None:
    warned = graded(examined("ZooKeeper", cluster_settings), Grade.WARNING)

    assert "no login" in warned
    assert f"everybody may change {cluster_settings.root}" in warned


@pytest.mark.usefixtures("root")
def test_a_login_that_protects_nothing_is_a_failure(
    examined: Examine, cluster_settings: Settings
) -> None:
    (finding,) = [
        each
        for each in examined("ZooKeeper", with_login(cluster_settings))
        if each.grade is Grade.FAILED
    ]
    assert "everybody may change" in finding.text
    assert "pyspider-zk protect" in finding.remedy


@pytest.mark.usefixtures("root")
def test_another_login_is_refused_and_not_shown(
    examined: Examine, cluster_settings: Settings
) -> None:
    owner = Connection(with_login(cluster_settings))
    owner.start()
    protect(owner, cluster_settings.root)
    owner.stop()

    found = examined("ZooKeeper", with_login(cluster_settings, "some other password"))

    assert "refuses" in graded(found, Grade.FAILED)
    assert "some other password" not in str(found)


def test_nothing_at_the_root_is_warned_of(examined: Examine, cluster_settings: Settings) -> None:
    warned = graded(examined("ZooKeeper", cluster_settings), Grade.WARNING)
    assert f"there is nothing at {cluster_settings.root}" in warned


def test_a_server_that_is_away_beside_one_that_answers(
    examined: Examine, cluster_settings: Settings
) -> None:
    away = f"127.0.0.1:{own_port()}"
    hosts = f"{cluster_settings.hosts},{away}"

    warned = graded(examined("ZooKeeper", replace(cluster_settings, hosts=hosts)), Grade.WARNING)

    assert f"{away} cannot be reached" in warned


def test_nobody_answers(examined: Examine, cluster_settings: Settings) -> None:
    settings = replace(cluster_settings, hosts=f"127.0.0.1:{own_port()}")
    assert "no ZooKeeper answers at" in graded(examined("ZooKeeper", settings), Grade.FAILED)


def test_a_session_that_is_granted_otherwise_or_ends_before_the_lease(
    examined: Examine, cluster_settings: Settings
) -> None:
    found = examined("ZooKeeper", replace(cluster_settings, session=80.0, lease=50.0, hang=50.0))

    assert "40 s is granted, 80 s were requested" in graded(found, Grade.WARNING)
    assert "40 s, no longer than the lease of 50 s" in graded(found, Grade.FAILED)


def test_tls_is_well_and_a_wrong_authority_is_not(
    examined: Examine, cluster_settings: Settings, tmp_path: Path
) -> None:
    files = authority(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with tls_zookeeper(tmp_path / "zookeeper", files) as address:
        patient = replace(cluster_settings, **NO_HURRY)
        settings = replace(patient, hosts=address, tls=True, tls_ca=str(files.ca))
        found = examined("ZooKeeper", settings)
        fooled = examined("ZooKeeper", replace(settings, tls_ca=str(authority(other).ca)))
    assert "TLS" in graded(found, Grade.OK)
    assert "version 3." in graded(found, Grade.OK)
    assert "there is no TLS with localhost" in graded(fooled, Grade.FAILED)
