"""What is of sqlite's task database alone."""

from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.tasks.sqlite import SqliteTasks, padded
from pyspider_zk.tasks.writes import MOST_ROWS


@pytest.fixture
def taskdb(tmp_path: Path) -> Any:
    return connect_database(f"sqlite+taskdb:///{tmp_path}/task.db")


@pytest.fixture
def other(tmp_path: Path) -> Any:
    """Give the same file to somebody who waits for no lock."""
    other = connect_database(f"sqlite+taskdb:///{tmp_path}/task.db")
    other.patience = 0
    return other


def test_reads_of_any_number_of_rows_are_few_statements() -> None:
    ids = [str(number) for number in range(MOST_ROWS)]
    lengths = set()
    for count in range(1, MOST_ROWS + 1):
        found = padded(ids[:count])
        assert [each for each in found if each is not None] == ids[:count]
        lengths.add(len(found))
    assert lengths == {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}


def test_what_pads_a_read_is_no_id(taskdb: Any) -> None:
    for taskid in ("a", "b", "c"):
        taskdb.insert("p", taskid, {"url": f"url of {taskid}"})
    taskdb._execute("INSERT INTO `taskdb_p` (taskid, url) VALUES (NULL, 'nobody')")

    found = SqliteTasks(taskdb).get_many("p", ["a", "b", "c", "d", "e"], ["url"])

    assert found == {taskid: {"url": f"url of {taskid}"} for taskid in ("a", "b", "c")}
