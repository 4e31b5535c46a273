"""What an embedded cluster refuses before it starts anything."""

from pathlib import Path

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.local.cluster import LocalCluster
from pyspider_zk.local.plan import ProcessPlan


def test_a_secret_that_others_can_read_starts_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery", encoding="ascii")
    secret.chmod(0o644)
    cluster = LocalCluster(ProcessPlan(tmp_path), report=print)
    with pytest.raises(ConfigError, match=r"secret can be read by others \(mode 644\): chmod 600"):
        cluster.start()
    assert not (tmp_path / "zookeeper").exists()
    assert not (tmp_path / "up.json").exists()


@pytest.mark.parametrize("name", ["task", "project", "result"])
def test_a_file_that_is_no_database_is_named_and_starts_nothing(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.db"
    file.write_text("this is no database, though it is as long as its header" * 10)
    cluster = LocalCluster(ProcessPlan(tmp_path), report=print)
    with pytest.raises(ConfigError, match=rf"{file}: file is not a database; move it away"):
        cluster.start()
    assert not (tmp_path / "zookeeper").exists()
