"""What an embedded cluster refuses before it starts anything, and what does not end it."""

import errno
from pathlib import Path
from typing import Never

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.local.child import Child
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


def plan_elsewhere(folder: Path) -> ProcessPlan:
    """Return a plan with services that are not ours: its processes alone ask them."""
    return ProcessPlan(
        folder,
        schedulers=1,
        zookeeper="127.0.0.1:1/here",
        message_queue="redis://127.0.0.1:1/0",
        webui_port=1,
    )


def full(*_: object, **__: object) -> Never:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_scale_that_cannot_be_announced_is_done_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    started: list[str] = []
    monkeypatch.setattr(Child, "start", lambda child: started.append(child.name))
    cluster = LocalCluster(plan_elsewhere(tmp_path), report=said.append)
    cluster.start()
    try:
        monkeypatch.setattr("pyspider_zk.local.folder.private_file", full)
        cluster.scale(2)
        cluster.tick()
    finally:
        cluster.end()

    assert cluster.schedulers == (0, 1)
    assert len([name for name in started if name.startswith("scheduler-")]) == 2
    (line,) = said
    assert "up.json cannot be written: No space left on device" in line


def test_a_cluster_that_cannot_be_announced_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_elsewhere(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("pyspider_zk.local.folder.private_file", full)
        with pytest.raises(ConfigError, match=r"up.json cannot be written: No space left on dev"):
            LocalCluster(plan, report=print).start()

    cluster = LocalCluster(plan, report=print)  # nothing of the first is in its way
    cluster.start()
    cluster.end()
