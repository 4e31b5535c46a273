"""From a plan to the commands of its processes."""

import subprocess
from dataclasses import replace
from pathlib import Path

from pyspider_zk.config import Settings
from pyspider_zk.local.plan import (
    Addresses,
    ProcessPlan,
    component_commands,
    database_files,
    database_urls,
    scheduler_command,
)

ADDRESSES = Addresses(
    zookeeper="127.0.0.1:2181/pyspider-zk",
    message_queue="redis://127.0.0.1:6379/0",
    taskdb="sqlite+taskdb:////d/task.db",
    projectdb="sqlite+projectdb:////d/project.db",
    resultdb="sqlite+resultdb:////d/result.db",
    webui_port=5000,
)


def commands(where=ADDRESSES, plan=ProcessPlan()):  # noqa: B008 - it is frozen
    return [scheduler_command(plan, where, 0), *component_commands(plan, where)]


def test_a_plan_runs_as_many_of_each_component_as_it_says():
    plan = ProcessPlan(fetchers=2, processors=3)

    names = [command.name for command in component_commands(plan, ADDRESSES)]

    assert names == [
        "fetcher-0",
        "fetcher-1",
        "processor-0",
        "processor-1",
        "processor-2",
        "result-worker",
        "webui",
    ]


def test_fetchers_share_the_renderers_and_the_web_ui_has_one():
    plan = ProcessPlan(fetchers=3, processors=0, renderers=2)
    commands = component_commands(plan, replace(ADDRESSES, renderer_ports=(7001, 7002)))

    lines = {command.name: command.line[-5:] for command in commands}
    told = {command.name: command.environ.get("PHANTOMJS_PROXY") for command in commands}

    assert lines["renderer-1"] == ("renderer", "--host", "127.0.0.1", "--port", "7002")
    assert told == {
        "fetcher-0": "127.0.0.1:7001",
        "fetcher-1": "127.0.0.1:7002",
        "fetcher-2": "127.0.0.1:7001",
        "renderer-0": None,
        "renderer-1": None,
        "result-worker": None,
        "webui": "127.0.0.1:7001",
    }


def test_only_one_fetcher_serves_the_configured_port():
    first, *others = component_commands(ProcessPlan(fetchers=3, processors=0), ADDRESSES)[:3]

    assert first.line[-1] == "fetcher"
    assert [each.line[-3:] for each in others] == [("fetcher", "--xmlrpc-port", "0")] * 2


def test_every_process_is_told_where_everything_is():
    for command in commands():
        line = command.line
        told = {word: line[at + 1] for at, word in enumerate(line) if word.startswith("--")}
        assert told["--zookeeper"] == ADDRESSES.zookeeper
        assert command.environ["AMQP_URL"] == ADDRESSES.message_queue
        assert command.environ["TASKDB"] == ADDRESSES.taskdb
        assert command.environ["PROJECTDB"] == ADDRESSES.projectdb
        assert command.environ["RESULTDB"] == ADDRESSES.resultdb


def test_no_process_runs_what_lies_in_the_current_folder_in_place_of_a_module(tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('not the module')")

    line = scheduler_command(ProcessPlan(), ADDRESSES, 0).line
    done = subprocess.run([*line, "--help"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_no_password_is_an_argument_or_shown():
    secret = Addresses(
        zookeeper="zk:2181/pyspider-zk",
        message_queue="rediss://crawl:HIDDEN@redis/0",
        taskdb="mysql+taskdb://crawl:HIDDEN@db/task",
        projectdb="mysql+projectdb://crawl:HIDDEN@db/project",
        resultdb="mysql+resultdb://crawl:HIDDEN@db/result",
        webui_port=5000,
    )
    plan = ProcessPlan(message_queue=secret.message_queue, taskdb=secret.taskdb)

    found = commands(secret, plan)

    assert len(found) == 6
    for command in found:
        assert "HIDDEN" not in " ".join(command.line)
        assert "HIDDEN" in command.environ["AMQP_URL"]
    assert "HIDDEN" not in repr((found, plan, secret))


def test_connections_of_its_own_have_the_login_and_go_to_the_cluster():
    plan = ProcessPlan(settings=Settings(hosts="other:1", username="crawl", password="x"))  # noqa: S106

    assert ADDRESSES.settings(plan) == replace(
        plan.settings, hosts="127.0.0.1:2181", root="/pyspider-zk"
    )


def test_a_scheduler_has_a_name_of_its_own_and_any_port():
    command = scheduler_command(ProcessPlan(), ADDRESSES, 4)

    assert command.name == "scheduler-up-4"
    assert command.environ["PYSPIDER_ZK_NAME"] == "up-4"
    assert command.line[-3:] == ("127.0.0.1", "--xmlrpc-port", "0")
    assert command.line[-5:-3] == ("scheduler", "--xmlrpc-host")


def test_who_is_called_or_calls_others_is_told_where_the_secret_is():
    where = replace(ADDRESSES, secret_file="/d/secret", renderer_ports=(1,))  # noqa: S106

    found = commands(where)

    told = {each.name for each in found if "PYSPIDER_ZK_SECRET_FILE" in each.environ}
    assert told == {"scheduler-up-0", "fetcher-0", "renderer-0", "webui"}
    assert not any("/d/secret" in each.line for each in found)


def test_every_process_is_told_the_login_that_was_made_for_zookeeper():
    file = "/d/zookeeper.password"

    for command in commands(replace(ADDRESSES, zookeeper_password_file=file)):
        assert command.environ["PYSPIDER_ZK_USERNAME"] == "up"
        assert command.environ["PYSPIDER_ZK_PASSWORD_FILE"] == file
        assert file not in command.line
    for command in commands(ADDRESSES):
        assert "PYSPIDER_ZK_USERNAME" not in command.environ


def test_the_web_ui_listens_on_loopback_only():
    webui = component_commands(ProcessPlan(), ADDRESSES)[-1]

    assert webui.line[-5:] == ("webui", "--host", "127.0.0.1", "--port", "5000")
    assert ADDRESSES.webui == "http://127.0.0.1:5000/"


def test_a_config_file_is_named_absolutely_before_the_command():
    plan = ProcessPlan(config=Path("config.json"))

    line = scheduler_command(plan, ADDRESSES, 0).line

    at = line.index("--config")
    assert line[at + 1] == str(Path("config.json").resolve())
    assert at < line.index("scheduler")


def test_a_database_without_url_is_a_file_in_the_folder():
    plan = ProcessPlan(folder=Path("/d"), taskdb="mysql+taskdb://h/t")

    assert database_files(plan) == {
        "projectdb": Path("/d/project.db"),
        "resultdb": Path("/d/result.db"),
    }
    assert database_urls(plan) == {
        "taskdb": "mysql+taskdb://h/t",
        "projectdb": "sqlite+projectdb:////d/project.db",
        "resultdb": "sqlite+resultdb:////d/result.db",
    }


def test_each_process_serves_metrics_on_a_port_of_its_own():
    plan = ProcessPlan(settings=Settings(metrics="127.0.0.1:9464"))
    assert {each.environ["PYSPIDER_ZK_METRICS"] for each in commands(plan=plan)} == {"127.0.0.1:0"}
    assert plan.targets == Path("data/metrics")


def test_without_metrics_no_process_serves_any():
    assert not any("PYSPIDER_ZK_METRICS" in each.environ for each in commands())
    assert ProcessPlan().targets is None
