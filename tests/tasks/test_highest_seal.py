"""The highest seal, on every database that has seals."""

from pathlib import Path

import pytest
from pyspider.database import connect_database

from pyspider_zk.errors import Unavailable
from pyspider_zk.tasks.database import Seals, task_database
from pyspider_zk.tasks.highest_seal import highest_seal


@pytest.fixture(
    params=[
        "sqlite",
        "sqlalchemy+sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a task database that exists and has no seals."""
    if "sqlite" in request.param:
        found = f"{request.param}+taskdb:///{tmp_path}/task.db"
    else:
        server = request.getfixturevalue(request.param)
        found = server.url("task", server.new_name())
    connect_database(found)
    return found


def test_the_highest_of_this_cluster_counts(url: str) -> None:
    bulk = task_database(connect_database(url))
    bulk.seal(Seals("/crawl", {0: 5, 1: 1_800_000_007, 2: 6}))
    bulk.seal(Seals("/other", {0: 1_900_000_000}))

    assert highest_seal(url, "/crawl") == 1_800_000_007
    assert highest_seal(url, "/nobody") == 0


def test_without_seals_there_is_none(url: str) -> None:
    assert highest_seal(url, "/crawl") == 0


def test_a_file_that_is_missing_is_not_made(tmp_path: Path) -> None:
    assert highest_seal(f"sqlite+taskdb:///{tmp_path}/task.db", "/crawl") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_transactions_has_no_seals() -> None:
    assert highest_seal("redis+taskdb://127.0.0.1:1/1", "/crawl") == 0


def test_a_server_that_is_away_is_told() -> None:
    with pytest.raises(Unavailable, match=r"taskdb at 127\.0\.0\.1 cannot be read"):
        highest_seal("sqlalchemy+postgresql+taskdb://u:hidden@127.0.0.1:1/x", "/crawl")
