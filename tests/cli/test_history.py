"""``history`` shows what was counted."""

import json
import time
from contextlib import closing

import pytest

from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.history import field_at
from tests.cli.conftest import Run, ended

COUNTED = {"success": 1200, "failed": 3, "fetch_time": 2_500_000, "fetches": 10}


@pytest.mark.redis
def test_what_was_counted_is_shown_step_by_step(run: Run, redis_url: str) -> None:
    def ask(*options: object) -> str:
        return str(ended(run("history", "--message-queue", redis_url, *options)).stdout)

    assert ask() == "no try ended\n"
    now = time.time()
    with closing(connect(redis_url, 0, 1)) as queues:
        for adder, (measure, amount) in enumerate(COUNTED.items()):
            for project in ("", "news"):
                key, field = field_at(now - 600, project, measure)
                queues.history.add(f"{adder}{project}", 1, {key: {field: amount}})

    head, step = ask().splitlines()
    assert head.split() == [
        "from",
        "success",
        "failed",
        "retry",
        "fetch_time",
        "process_time",
        "pending",
    ]
    assert step.split()[2:] == ["1200", "3", "0", "0.25", "0"]
    assert ask("news").splitlines()[1].split()[2:] == ["1200", "3", "0"]
    assert sum(json.loads(ask("--span", "fortnight", "--json"))["success"]) == 1200
    assert ask("other") == "no try ended\n"


def test_a_span_that_nobody_keeps_is_refused(run: Run) -> None:
    assert "'fortnight'" in ended(run("history", "--span", "year"), 2).stderr
