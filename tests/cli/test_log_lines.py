"""``logs`` shows what all components have warned of lately."""

import json
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.log_lines import LogLine
from tests.cli.conftest import Run, announced, ended
from tests.support.crew import Cable
from tests.support.processes import lines_until, process

SLOW = LogLine(1000.5, "warning", "scheduler", "box", 7, "scheduler", "slow \x1b[2J")
FAILED = LogLine(1e300, "error", "processor", "box", 8, "processor", "failed", "news", "t", "a\nb")


@pytest.mark.redis
def test_lines_are_shown_oldest_first_and_found(run: Run, redis_url: str) -> None:
    def ask(*options: object) -> str:
        return str(ended(run("logs", "--message-queue", redis_url, *options)).stdout)

    assert ask() == "no line matches\n"
    with closing(connect(redis_url, 0, 1)) as queues:
        queues.log.append([SLOW, FAILED])
    first, *second = ask().splitlines()
    assert first.endswith(" warning scheduler box:7 scheduler: slow \\x1b[2J")
    assert second == ["unreadable error processor box:8 processor: failed", "    a", "    b"]
    for options in (
        ("--level", "error"),
        ("--component", "processor"),
        ("--project", "news"),
        ("--text", "B"),
        ("--limit", 1),
    ):
        (found,) = json.loads(ask(*options, "--json"))
        assert (found["at"], found["message"], found["traceback"]) == (1e300, "failed", "a\nb")


@pytest.mark.redis
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_lines_are_followed_until_ctrl_c(
    redis_url: str, tmp_path: Path, form: tuple[str, ...]
) -> None:
    command = ("logs", "--message-queue", redis_url, "--follow", *form)
    with closing(connect(redis_url, 0, 1)) as queues:
        queues.log.append([SLOW])
        with process(*command, folder=tmp_path) as child:
            lines_until(child, "slow")
            queues.log.append([replace(SLOW, message="slower")])
            (line,) = lines_until(child, "slower")
            queues.log.append([replace(SLOW, message="slowest")])
            assert len(lines_until(child, "slowest")) == 1
            child.send_signal(signal.SIGINT)
            assert child.wait() == 0
    assert not form or json.loads(line)["message"] == "slower"


@pytest.mark.redis
def test_who_follows_is_told_once_of_an_outage_and_misses_nothing(
    redis_server: RedisServer, redis_url: str, tmp_path: Path
) -> None:
    with (
        closing(connect(redis_url, 0, 1)) as queues,
        closing(Cable(redis_server.address)) as cable,
    ):
        queues.log.append([SLOW])
        address = cable.address
        url = redis_url.replace(redis_server.address, address)
        with process("logs", "--message-queue", url, "--follow", folder=tmp_path) as child:
            lines_until(child, "slow")
            cable.cut()
            (told,) = lines_until(child, "Redis at")
            queues.log.append([replace(SLOW, message="slower")])
            cable.mend()
            assert len(lines_until(child, "slower")) == 1
            child.send_signal(signal.SIGINT)
            assert child.wait() == 0
    assert told.startswith(f"Redis at {address}")


@pytest.mark.redis
def test_the_cluster_that_up_runs_in_this_folder_is_found(run: Run, redis_url: str) -> None:
    with announced("127.0.0.1:1", redis_url):
        assert ended(run("logs")).stdout == "no line matches\n"


def test_without_any_message_queue_the_remedy_is_told(run: Run) -> None:
    assert "--message-queue" in ended(run("logs"), 2).stderr
