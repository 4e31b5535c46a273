"""What commands and options there are, and what a process loads for them."""

import subprocess
import sys

import click
import pytest
from pyspider import run as stock

from pyspider_zk import webui
from pyspider_zk.cli.components import CLUSTER_CLASSES, INSECURE_HELP
from pyspider_zk.cli.main import cli
from pyspider_zk.cli.stock import ALONE, command_name
from pyspider_zk.webui import instance
from tests.cli.conftest import Run, ended
from tests.support.processes import ROOT

STOCK = [command_name(command) for command in stock.cli.commands.values()]


def flags(command: click.Command) -> set[str]:
    return {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}


def test_help_names_the_cluster_s_commands_first(run: Run) -> None:
    text = run("--help").output
    ours, theirs = text.index("The cluster:"), text.index("pyspider's components:")
    assert ours < text.index("  status") < theirs < text.index("  scheduler")


def test_every_global_option_of_pyspider_is_there() -> None:
    assert flags(stock.cli) | {"--zookeeper"} == flags(cli)


@pytest.mark.parametrize("name", STOCK)
def test_every_command_has_pyspider_s_options(name: str) -> None:
    theirs = {command_name(command): command for command in stock.cli.commands.values()}
    ours = {"--insecure"} if name in INSECURE_HELP else set()
    assert flags(cli.commands[name]) == flags(theirs[name]) | ours


@pytest.mark.parametrize("name", [*STOCK, "result_worker", "send_message", *sorted(cli.own)])
def test_every_command_explains_itself(run: Run, name: str) -> None:
    assert f"Usage: pz {name.replace('_', '-')}" in ended(run(name, "--help")).output


@pytest.mark.parametrize(("name", "choice"), CLUSTER_CLASSES.items())
def test_components_run_the_cluster_s_classes_by_default(
    run: Run, name: str, choice: tuple[str, str]
) -> None:
    option, path = choice
    text = run(name, "--help").output
    assert f"--{option.replace('_', '-')}" in text
    assert path in text


def test_a_cluster_s_rounds_are_twice_as_large_by_default() -> None:
    options = {param.name: param for param in cli.commands["scheduler"].params}
    assert options["loop_limit"].default == 2000


def test_pyspider_s_own_commands_stay_as_they_are() -> None:
    options = {param.name: param for param in stock.scheduler.params}
    assert options["loop_limit"].default == 1000
    assert options["xmlrpc_port"].type is click.INT
    assert options["scheduler_cls"].default == "pyspider.scheduler.ThreadBaseScheduler"
    assert stock.scheduler.context_class is click.Context


def test_commands_that_run_alone_keep_pyspider_s_defaults() -> None:
    assert {cli.commands[name].context_class for name in ALONE} == {click.Context}


def test_an_unknown_command_is_answered_with_the_likely_one(run: Run) -> None:
    assert "'scheduler'" in ended(run("shceduler"), 2).output


def test_the_version_names_both_packages(run: Run) -> None:
    text = run("--version").output
    assert "pyspider-zk 0." in text
    assert "pyspider 0.3.10+zk" in text


def test_a_class_that_does_not_exist_is_named(run: Run) -> None:
    result = run(
        "--message-queue", "redis://h/0", "scheduler", "--scheduler-cls", "pyspider_zk.hooks.Other"
    )
    assert result.exit_code == 2
    assert "cannot load 'pyspider_zk.hooks.Other'" in result.output


@pytest.mark.parametrize(
    "modules", [{"flask", "marshmallow"}, {"sqlalchemy"}], ids=["web UI", "databases on servers"]
)
def test_a_process_loads_only_what_it_needs(modules: set[str]) -> None:
    code = f"import sys, pyspider_zk.cli.main; print({modules} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_the_package_of_the_web_ui_has_what_pyspider_asks_for_and_nothing_else() -> None:
    assert webui.app is instance.app
    assert webui.ClusterWebUI is instance.ClusterWebUI
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = webui.nothing
