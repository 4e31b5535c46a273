"""``logs`` shows what all components have warned of lately."""

import json
from contextlib import closing

import pytest

from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.log_lines import LogLine
from tests.cli.conftest import Run, announced, ended

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
def test_the_cluster_that_up_runs_in_this_folder_is_found(run: Run, redis_url: str) -> None:
    with announced("127.0.0.1:1", redis_url):
        assert ended(run("logs")).stdout == "no line matches\n"


def test_without_any_message_queue_the_remedy_is_told(run: Run) -> None:
    assert "--message-queue" in ended(run("logs"), 2).stderr
