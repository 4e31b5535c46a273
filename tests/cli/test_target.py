"""The cluster that a command is about."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwuid
from socket import gethostname
from typing import Any

import pytest

from pyspider_zk.cli.target import databases_of, find_target, user
from pyspider_zk.components.wiring import ZOOKEEPER_OPTION
from pyspider_zk.errors import ClusterError

QUEUE = "redis://queue:6379/0"


@pytest.fixture
def closed(as_nobody: None) -> Iterator[Path]:  # noqa: ARG001
    """Give a folder that another user keeps to themselves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data")
        path.mkdir(mode=0)
        yield path


def options(folder: Path, **given: Any) -> dict[str, Any]:
    absent = dict.fromkeys((ZOOKEEPER_OPTION, "message_queue", "amqp_url", "taskdb"))
    return {**absent, "config": {}, "data_path": str(folder), **given}


def test_what_is_named_needs_no_folder_of_another_user(closed: Path) -> None:
    named = options(closed, zookeeper_option="zk:2181/crawl", message_queue=QUEUE, taskdb="t")
    found = find_target(named)
    assert found is not None
    assert (found.settings.root, found.message_queue) == ("/crawl", QUEUE)
    assert databases_of(named) == {"taskdb": "t"}


@pytest.mark.parametrize("given", [{}, {"zookeeper_option": "zk:2181"}, {"message_queue": QUEUE}])
def test_what_only_another_user_s_folder_could_tell_must_be_named(
    closed: Path, given: dict[str, Any]
) -> None:
    for ask in (find_target, databases_of):
        with pytest.raises(ClusterError, match=r"another user's.*--zookeeper.*--message-queue"):
            ask(options(closed, **given))


def test_whoever_gives_a_command_has_a_name_and_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert user() == f"{getpwuid(os.getuid()).pw_name}@{gethostname()}"
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)  # as containers have users without a name
    assert user() == f"{2**31 - 7}@{gethostname()}"
    monkeypatch.setenv("LOGNAME", "ann")
    assert user() == f"ann@{gethostname()}"
