"""A cluster of bare schedulers for each test; whatever the test does, ownership never overlaps."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import connected
from tests.support.crew import Cable, Crew


@pytest.fixture
def settings(cluster_settings: Settings) -> Settings:
    """Give the settings of a cluster with few slots."""
    return replace(cluster_settings, slots=12)


@pytest.fixture
def crew(settings: Settings) -> Iterator[Crew]:
    """Give schedulers; stop them afterwards and look whether ownership ever overlapped."""
    crew = Crew(settings)
    try:
        yield crew
    finally:
        crew.stop()
    assert crew.overlaps == []


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection]:
    """Give a connection of one's own."""
    with connected(settings) as connection:
        yield connection


@pytest.fixture
def cable(settings: Settings) -> Iterator[Cable]:
    """Give a cable to ZooKeeper."""
    cable = Cable(settings.hosts)
    yield cable
    cable.close()
