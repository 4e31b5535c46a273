"""The commands that have something done to projects, at a real cluster."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.client import Client
from pyspider_zk.cluster.events import Event
from pyspider_zk.config import Settings
from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.jobs import operations
from pyspider_zk.jobs.model import BatchRecord
from pyspider_zk.jobs.operations import Operation
from tests.cli.conftest import Run, ended, hosts
from tests.support.connected import connected
from tests.support.crew import Cable
from tests.support.live_cluster import LiveCluster
from tests.support.processes import PROGRAM, ROOT, lines_until, process

pytestmark = pytest.mark.zk

Ask = Callable[..., Any]
Eventually = Callable[..., None]


@pytest.fixture
def ask(run: Run, live: LiveCluster) -> Ask:
    """Give the function that runs a command at this cluster."""
    return lambda *arguments, **more: run("--zookeeper", hosts(live.settings), *arguments, **more)


def statuses(cluster: LiveCluster) -> dict[str, str]:
    return {row["name"]: row["status"] for row in cluster.database("project").get_all()}


COMMANDS: list[tuple[list[object], str, object]] = [
    (["start", "b"], "status", "RUNNING"),
    (["stop", "--pattern", "[ab]"], "status", "STOP"),
    (["restart", "--status", "stop"], "status", "RUNNING"),
    (["rate", "2.5", "7", "b"], "rate", 2.5),
    (["group", "weekly", "b", "c"], "group", "weekly"),
    (["set-status", "debug", "--all"], "status", "DEBUG"),
]


@pytest.mark.parametrize(("arguments", "column", "value"), COMMANDS)
def test_what_is_asked_for_is_done_when_the_command_ends(
    ask: Ask, live: LiveCluster, arguments: list[object], column: str, value: object
) -> None:
    result = ended(ask(*arguments))
    assert " done: " in result.stdout
    assert live.database("project").get("b")[column] == value


def test_run_calls_on_start_of_a_project_that_runs(ask: Ask, live: LiveCluster) -> None:
    assert ask("run", "a", "--id", "mine").exit_code == 0
    task = live.database("task").get_task("a", "on_start")
    assert (task["process"]["callback"], task["schedule"]["itag"]) == ("on_start", "mine")


def test_refetch_fetches_what_failed_again(ask: Ask, live: LiveCluster) -> None:
    late = {"fetch": {"error": "HTTP 599: Timeout"}, "process": {"ok": False}}
    failed = {"url": "http://u", "status": TaskDB.FAILED, "schedule": {"exetime": 9e9}}
    for taskid, track in (("late", late), ("broken", {}), ("other", {})):
        live.database("task").insert("a", taskid, {**failed, "track": track})

    result = ask("refetch", "a", "--task", "late", "--task", "broken", "--error", "Timeout")

    assert result.exit_code == 0, result.output
    assert "refetch done: 1 of 1 project" in result.stdout
    assert live.database("task").status_count("a") == {TaskDB.ACTIVE: 1, TaskDB.FAILED: 2}
    assert ask("refetch", "a", "--state", "failed").exit_code == 0
    assert live.database("task").status_count("a") == {TaskDB.ACTIVE: 3}


def test_refetch_asks_a_scheduler_that_knows_fewer_conditions(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for later in ("kind", "url"):
        monkeypatch.delitem(operations._ARGUMENTS[Operation.REFETCH], later)
    assert ask("refetch", "a").exit_code == 0


def test_failures_are_named_and_end_with_1(ask: Ask) -> None:
    result = ended(ask("run", "a", "b"), 1)
    assert "run failed: 1 of 2 projects, 1 failed" in result.stdout
    assert "  b: " in result.stderr


def test_json_is_one_document(ask: Ask) -> None:
    result = ask("stop", "--all", "--json", "--id", "mine", "--priority", 900)
    found = json.loads(result.stdout)
    assert (found["id"], found["state"], found["done"]) == ("mine", "done", 3)
    assert found["user"] == f"ann@{gethostname()}"
    assert result.stderr == ""


def test_on_a_terminal_the_progress_is_shown(live: LiveCluster, tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    command = (*PROGRAM, "--zookeeper", hosts(live.settings), "set-status", "debug", "--all")
    environ = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
    subprocess.run(command, cwd=tmp_path, env=environ, stderr=terminal, check=True, timeout=60)
    shown = os.read(screen, 100_000).decode()
    os.close(screen)
    os.close(terminal)
    assert "3/3" in shown


def test_who_does_not_wait_gets_the_job(ask: Ask) -> None:
    result = ended(ask("delete", "b", "--yes", "--no-wait", "--id", "mine"))
    assert "(batch mine)" in result.stdout
    assert ask("batch", "mine", "--follow").exit_code == 0


def test_who_waits_too_short_is_told_so(ask: Ask) -> None:
    result = ended(ask("delete", "b", "--yes", "--timeout", 0, "--id", "mine"), 1)
    assert "batch mine is at work" in result.stderr


def test_a_dry_run_only_tells(ask: Ask, live: LiveCluster) -> None:
    before = statuses(live)
    result = ask("start", "--status", "STOP", "--dry-run")
    assert (result.exit_code, result.stdout) == (0, "start 2 projects: b, c\n")
    assert statuses(live) == before
    doubtful = ask("run", "--all", "--dry-run", "--json")
    assert doubtful.exit_code == 1
    assert "not RUNNING" in json.loads(doubtful.stdout)["faults"][0]
    assert ask("batches").stdout == "no batches\n"


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["start"], "name projects"),
        (["start", "a", "--all"], "--all"),
        (["start", "nobody"], "nobody"),
        (["start", "--status", "OFF"], "OFF"),
        (["rate", "-1", "1", "a"], "-1"),
        (["set-status", "OFF", "a"], "OFF"),
        (["start", "--pattern", "\udcff*"], r"pattern: '\udcff*'"),
        (["stop", "--pattern", "", "--status", "RUNNING"], "selection: pattern"),
        (["group", "\udcff", "a"], r"group: '\udcff'"),
        (["refetch", "a", "--error", ""], "refetch: error must be text"),
        (["refetch", "a", "--state", "ACTIVE"], "ACTIVE"),
        (["batch", "none"], "none"),
        (["batch", "none", "--cancel", "--retry"], "exclude"),
    ],
)
def test_a_wrong_command_ends_with_2_and_names_the_culprit(
    ask: Ask, arguments: list[object], culprit: str
) -> None:
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert culprit in result.stderr


# -- delete ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("names", "typed"), [(["b"], "b"), (["b", "c"], "2")])
def test_deleting_asks_for_the_name_or_the_number(
    ask: Ask, live: LiveCluster, names: list[str], typed: str
) -> None:
    ended(ask("delete", *names, input=f"{typed}\n"))
    assert not statuses(live).keys() & set(names)


def test_the_number_may_be_typed_as_it_is_shown(ask: Ask, live: LiveCluster) -> None:
    for number in range(1000):
        live.project(f"many_{number}", "STOP")
    result = ask("delete", "--pattern", "many_*", "--no-wait", input="1,000\n")
    assert result.exit_code == 0
    assert "1,000 projects" in result.stderr


@pytest.mark.parametrize("typed", ["", "y\n", "c\n", "1\n"])
def test_deleting_does_nothing_without_the_right_answer(
    ask: Ask, live: LiveCluster, typed: str
) -> None:
    before = statuses(live)
    ended(ask("delete", "b", input=typed), 1)
    assert statuses(live) == before
    assert ask("batches").stdout == "no batches\n"


def test_deleting_tomorrow_stops_today(ask: Ask, live: LiveCluster) -> None:
    assert ask("delete", "a", "--yes", "--in-24h").exit_code == 0
    assert statuses(live)["a"] == "STOP"


# -- jobs ------------------------------------------------------------------------------------


def test_jobs_are_listed_newest_first(ask: Ask) -> None:
    ask("stop", "a", "--id", "first")
    ask("run", "b", "--id", "second")
    lines = ask("batches").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["second", "run", "failed"],
        ["first", "stop", "done"],
    ]
    assert [each["id"] for each in json.loads(ask("batches", "--json", "--limit", 1).stdout)] == [
        "second"
    ]


def test_a_job_tells_how_it_ended(ask: Ask) -> None:
    ask("run", "b", "--id", "mine")
    result = ended(ask("batch", "mine"), 1)
    assert "run failed: 0 of 1 project, 1 failed" in result.stdout
    assert json.loads(ask("batch", "mine", "--json").stdout)["failed"] == 1


def test_a_job_can_be_retried(ask: Ask) -> None:
    ask("run", "b", "--id", "mine")
    again = ask("batch", "mine", "--retry", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["total"] == 1


def test_a_retry_that_is_followed_tells_how_it_ended(ask: Ask) -> None:
    ask("run", "b", "--id", "mine")
    result = ended(ask("batch", "mine", "--retry", "--follow"), 1)
    assert "run failed: 0 of 1 project, 1 failed" in result.stdout


@pytest.mark.parametrize("fault", [Unavailable, Refused])
def test_a_batch_that_cannot_be_followed_is_named(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, fault: type[Unavailable]
) -> None:
    def silent(*_: object) -> None:
        raise fault("nobody answers")

    monkeypatch.setattr(Client, "batch", silent)
    result = ended(ask("stop", "a", "--json"), fault.exit_code)
    (batch,) = json.loads(ask("batches", "--json").stdout)
    assert f"nobody answers; batch {batch['id']} was accepted" in result.stderr


def test_a_job_can_be_cancelled(ask: Ask, live: LiveCluster) -> None:
    (scheduler,) = live.running
    scheduler._services.runner.stop()  # nobody carries anything out
    ask("stop", "a", "--no-wait", "--id", "mine")
    assert ask("batch", "mine", "--cancel").exit_code == 0
    followed = ask("batch", "mine", "--follow", "--json")
    assert (followed.exit_code, json.loads(followed.stdout)["state"]) == (1, "cancelled")


# -- looking ---------------------------------------------------------------------------------


def test_projects_are_shown_with_their_owners(ask: Ask) -> None:
    lines = ask("projects", "--status", "STOP", "--sort", "-name").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "c", "b"]
    assert {line.split()[-1] for line in lines[1:]} == {"0"}
    found = json.loads(ask("projects", "--json", "--owner", 0, "--limit", 1).stdout)
    assert (found["total"], [each["name"] for each in found["projects"]]) == (3, ["a"])
    assert ask("projects", "--pattern", "x*").stdout == "no projects\n"


def test_a_route_is_shown(ask: Ask) -> None:
    found = json.loads(ask("route", "a", "--json").stdout)
    text = ask("route", "a").stdout
    assert text == f"a: slot {found['slot']}, owned by member 0 at {found['address']}\n"


def test_events_are_shown_oldest_first(ask: Ask) -> None:
    ask("stop", "a", "--id", "mine")
    events = [json.loads(line) for line in ask("events", "--json").stdout.splitlines()]
    batch = next(each for each in events if each["kind"] == "batch")
    assert (batch["who"], batch["data"]["batch"]) == (f"ann@{gethostname()}", "mine")
    assert [each["sequence"] for each in events] == sorted(each["sequence"] for each in events)
    after = ask("events", "--after", batch["sequence"] - 1).stdout
    assert f"stop of 1 project was asked for (ann@{gethostname()})" in after.splitlines()[0]


def test_events_of_the_archive_are_searched(ask: Ask, eventually: Eventually) -> None:
    ask("stop", "a", "--id", "first")
    ask("start", "a", "--id", "second")
    eventually(lambda: "second" in ask("events", "--who", "ANN", "--json").stdout)
    found = ask("events", "start of", "--group", "orders", "--since", "2020-01-01").stdout
    assert [line.split()[3] for line in found.splitlines()] == ["batch"]
    assert "(ann@" in found
    at = " ".join(found.split()[1:3])
    assert "start of" in ask("events", "--since", at, "--who", "ann").stdout
    for none in (("--kind", "none"), ("--until", "2020-01-01")):
        result = ask("events", *none)
        assert (result.stdout, result.stderr) == ("", "no event matches\n")


def test_a_time_too_far_away_is_refused(run: Run) -> None:
    assert "0001-01-01 is too far away" in ended(run("events", "--since", "0001-01-01"), 2).stderr


def test_conditions_and_following_exclude_each_other(ask: Ask) -> None:
    result = ended(ask("events", "--who", "ann", "--follow"), 2)
    assert "--follow and --after take no conditions" in result.stderr


def put(settings: Settings, path: str, data: bytes) -> None:
    """Write a znode of the cluster, as anybody may who reaches ZooKeeper."""
    with connected(settings) as connection:
        connection.create(f"{settings.root}/{path}", data)


def test_what_an_event_or_a_batch_is_called_is_not_obeyed_by_a_terminal(
    ask: Ask, live: LiveCluster
) -> None:
    ask("stop", "a")
    hostile = "\x9b2J[/x]"  # an 8-bit CSI; XML-RPC takes no ESC
    event = Event("stop", f"by {hostile}", 1000.0, hostile)
    put(live.settings, "events/event-0000009999", event.encode())
    note = {"operation": hostile, "user": hostile}
    put(live.settings, "jobs/batches/odd", BatchRecord(note, 1000.0, 0).encode())
    for command in (["events"], ["batches"], ["batch", "odd"]):
        shown = ask(*command).output
        assert r"\x9b2J[/x]" in shown
        assert "\x9b" not in shown


@pytest.mark.parametrize("seconds", [-1e300, 1e300])
def test_events_and_batches_whose_times_are_none_are_shown(
    ask: Ask, live: LiveCluster, seconds: float
) -> None:
    ask("stop", "a")
    put(live.settings, "events/event-0000009999", Event("stop", "odd", seconds).encode())
    put(live.settings, "jobs/batches/odd", BatchRecord({}, seconds, 0).encode())
    events, batches = ask("events"), ask("batches")
    assert (events.exit_code, batches.exit_code) == (0, 0)
    assert "unreadable  stop     odd" in events.stdout
    (line,) = (line for line in batches.stdout.splitlines() if line.startswith("odd "))
    assert line.split()[-1] == "unreadable"


def test_events_are_followed_until_ctrl_c(ask: Ask, live: LiveCluster, tmp_path: Path) -> None:
    where = ("--zookeeper", hosts(live.settings))
    with process(*where, "events", "--follow", folder=tmp_path) as child:
        lines_until(child, "joined")
        ask("stop", "a")
        lines_until(child, "stop of 1 project")
        child.send_signal(signal.SIGINT)
        assert child.wait() == 0


def test_who_follows_events_is_told_once_of_an_outage_and_misses_none(
    ask: Ask, live: LiveCluster, tmp_path: Path
) -> None:
    with closing(Cable(live.settings.hosts)) as cable:
        where = ("--zookeeper", hosts(replace(live.settings, hosts=cable.address)))
        with process(*where, "events", "--follow", folder=tmp_path) as child:
            lines_until(child, "joined")
            cable.cut()
            lines_until(child, "ZooKeeper")
            ask("stop", "a")
            cable.mend()
            assert len(lines_until(child, "stop of 1 project")) == 1
            child.send_signal(signal.SIGINT)
            assert child.wait() == 0


def test_without_a_cluster_the_remedy_is_told(run: Run) -> None:
    assert "pyspider-zk up" in ended(run("batches"), 3).stderr
