"""The command, run in this process in a folder and an environment of its own."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyspider_zk.cli.main import cli
from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.records import Component, ComponentKind, Load, Member
from pyspider_zk.config import Settings
from pyspider_zk.local.folder import Running, announce, claimed
from tests.support.live_cluster import LiveCluster, living

Run = Callable[..., Result]

MEMBER = Member("10.0.0.1:23333", "box-1", 11, "0.1.0", started=1000.0)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `status` wait for a ZooKeeper on however busy a machine."""
    monkeypatch.setattr("pyspider_zk.cli.status.PATIENCE", 60.0)


@pytest.fixture
def process_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what pyspider does to the process it runs in: logging, SIGTERM, module path."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    handler = signal.getsignal(signal.SIGTERM)
    before = {logger: _logging_state(logger) for logger in _loggers()}
    yield
    for logger in _loggers():
        fresh = {"level": logging.NOTSET, "handlers": [], "propagate": True, "disabled": False}
        vars(logger).update(before.get(logger, fresh))
    signal.signal(signal.SIGTERM, handler)


def _loggers() -> list[logging.Logger]:
    known = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in known if isinstance(logger, logging.Logger))]


def _logging_state(logger: logging.Logger) -> dict[str, object]:
    return {
        "level": logger.level,
        "handlers": list(logger.handlers),
        "propagate": logger.propagate,
        "disabled": logger.disabled,
    }


@pytest.fixture
def run(process_state: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:  # noqa: ARG001
    """Give the function that runs the command with these arguments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("DEBUG", raising=False)

    def run_command(*arguments: object, **more: Any) -> Result:
        words = [str(argument) for argument in arguments]
        return CliRunner().invoke(cli, words, prog_name="pz", **more)

    return run_command


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], Path]:
    """Give the function that writes a config.json."""

    def write(text: str) -> Path:
        path = tmp_path / "config.json"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def cluster(cluster_settings: Settings, eventually: Callable[..., None]) -> Iterator[Settings]:
    """Run a cluster of one member, which owns everything, and one processor."""
    member = Coordinator(cluster_settings, MEMBER, dict, lambda: Load(projects=3, pending=7))
    component = Component("box-2", 22, "0.1.0", started=1000.0)

    def owns_everything() -> bool:
        member.beat()
        return len(member.view.owned) == cluster_settings.slots

    member.start()
    try:
        with Presence(cluster_settings, ComponentKind.PROCESSOR, component):
            eventually(owns_everything)
            yield cluster_settings
    finally:
        member.stop()


@pytest.fixture
def live(
    tmp_path: Path,
    cluster_settings: Settings,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LiveCluster]:
    """Give a cluster of three projects and a scheduler, whose secret commands find."""
    monkeypatch.setenv("PYSPIDER_ZK_SECRET", cluster_settings.secret)
    monkeypatch.setenv("LOGNAME", "ann")
    with living(LiveCluster(tmp_path, cluster_settings), eventually) as made:
        yield made


@contextmanager
def announced(zookeeper: str, message_queue: str) -> Iterator[None]:
    """Let this process be an `up` that runs a cluster in ./data."""
    urls = dict.fromkeys(("taskdb", "projectdb", "resultdb", "webui"), "")
    where = {"zookeeper": zookeeper, "message_queue": message_queue}
    with claimed(Path("data")):
        announce(Path("data"), Running(pid=os.getpid(), schedulers=1, **where, **urls))
        yield


def hosts(settings: Settings) -> str:
    return f"{settings.hosts}{settings.root}"


def ended(result: Result, code: int = 0) -> Result:
    """Return how a command ended, which must be with this code."""
    assert result.exit_code == code, result.output
    return result
