"""Services away for a time: no process ends, nothing is rejected or lost, and it soon goes on."""

from pathlib import Path

import pytest

from tests.chaos.away import WAYS, WAYS_OF_A_SERVER, parse
from tests.chaos.outages import QUICK_TIMES, run
from tests.support.database_servers import PostgresServer
from tests.support.needed import skip_without_needed

SECONDS = 8.0
"""Longer than the lease and the session of these clusters, and than every pause between tries."""

TOLD = (
    "taskdb",
    "projectdb",
    "resultdb",
    "redis=frozen",
    "redis=killed",
    "zookeeper=killed",
    "taskdb,redis",
    "projectdb,zookeeper",
)
"""Each alone, and those pairs of which one hides the other."""

TOLD_OF_A_SERVER = (
    "databases=frozen",
    "databases=killed",
    "databases=cut",
    "taskdb",
    "projectdb",
    "resultdb",
    "databases,redis",
    "databases,zookeeper",
)


@pytest.mark.outage
@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_crawl_goes_on_when_what_was_away_returns(tmp_path: Path) -> None:
    with skip_without_needed():
        verdict = run(tmp_path / "cluster", list(map(parse, TOLD)), SECONDS, QUICK_TIMES)

    assert verdict.faults() == []
    assert len(verdict.outages) == len(TOLD)


@pytest.mark.soak
@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.postgresql
@pytest.mark.timeout(1800)
def test_a_crawl_goes_on_when_a_server_of_databases_returns(tmp_path: Path) -> None:
    outages = [parse(each, WAYS_OF_A_SERVER) for each in TOLD_OF_A_SERVER]
    with skip_without_needed():
        folder = tmp_path / "cluster"
        verdict = run(folder, outages, SECONDS, QUICK_TIMES, server=PostgresServer)

    assert verdict.faults() == []
    assert len(verdict.outages) == len(TOLD_OF_A_SERVER)


def test_what_is_away_is_told_in_words() -> None:
    assert parse("taskdb, redis=killed") == {"taskdb": "locked", "redis": "killed"}


@pytest.mark.parametrize("text", ["", "moon", "redis=locked", "taskdb,", "taskdb=killed"])
def test_what_cannot_be_away_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be away"):
        parse(text)


def test_every_way_has_a_service() -> None:
    assert set(WAYS) == {"taskdb", "projectdb", "resultdb", "redis", "zookeeper"}
    assert set(WAYS_OF_A_SERVER) == {*WAYS, "databases"}
