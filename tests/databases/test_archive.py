"""The archive is beside the projects, and who waits for it waits once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspider.database import connect_database
from pyspider.database.sqlalchemy.tables import KEY
from sqlalchemy import Column, MetaData, Table, select

from pyspider_zk.databases.archive import Archive
from pyspider_zk.errors import Unavailable

TABLE = Table("pyspider-zk-test", MetaData(), Column("name", KEY, primary_key=True))


@pytest.mark.parametrize("name", ["project.db", "a?b#c %2F.db"])
def test_it_is_in_the_file_that_has_the_projects(tmp_path: Path, name: str) -> None:
    projectdb = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    projectdb.path = str(tmp_path / name)
    with closing(sqlite3.connect(tmp_path / name)) as file:
        file.execute("CREATE TABLE IF NOT EXISTS projectdb (name)")
    archive = Archive(projectdb, TABLE)
    assert archive.change(TABLE.insert().values(name="n")) == 1
    assert archive.rows(select(TABLE)) == [{"name": "n"}]
    archive.close()
    with closing(sqlite3.connect(tmp_path / name)) as file:
        assert file.execute("SELECT name FROM `pyspider-zk-test`").fetchall() == [("n",)]


def test_after_a_failure_nobody_else_waits_for_a_while(tmp_path: Path) -> None:
    projectdb = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    file, projectdb.path = projectdb.path, str(tmp_path)  # no file
    archive = Archive(projectdb, TABLE)
    faults = []
    for path in (str(tmp_path), file):
        projectdb.path = path
        with pytest.raises(Unavailable, match="unable to open") as caught:
            archive.rows(select(TABLE))
        faults.append(str(caught.value))
    assert faults[0] == faults[1]
    assert "SELECT" not in faults[0]
    archive.close()
    assert archive.rows(select(TABLE)) == []
    archive.close()
