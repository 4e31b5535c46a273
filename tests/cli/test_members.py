"""Schedulers started by the command, and the commands that speak to them."""

import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.cluster.orders import ScaleNode
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import connected
from tests.cli.conftest import Run, ended, hosts
from tests.support.processes import PROGRAM, STOCK_PROGRAM, lines_until, process, rest
from tests.support.secured_servers import authority

CLASS = ("--scheduler-cls", "pyspider_zk.hooks.ClusterScheduler")


@pytest.fixture
def path(config: Callable[[str], Path], cluster_settings: Settings, redis_url: str) -> Path:
    """Give the config.json of a cluster of its own."""
    section = {
        "hosts": cluster_settings.hosts,
        "root": cluster_settings.root,
        "renewal": cluster_settings.renewal,
        "lease": cluster_settings.lease,
    }
    return config(json.dumps({"zookeeper": section, "message-queue": redis_url}))


@pytest.fixture
def state(run: Run, path: Path) -> Callable[[], dict[str, Any]]:
    """Give the function that returns the cluster's state; empty before its birth."""

    def read() -> dict[str, Any]:
        result = run("-c", path, "status", "--json")
        found: dict[str, Any] = json.loads(result.stdout or "{}")
        return found

    return read


def project(folder: Path) -> None:
    """Make a project that messages can be sent to, in the databases of commands in a folder."""
    projectdb = connect_database(f"sqlite+projectdb:///{folder / 'data' / 'project.db'}")
    projectdb.insert("project", {"status": "STOP", "script": "", "group": ""})


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.parametrize(
    "program", [(*PROGRAM, "-c"), (*STOCK_PROGRAM, "-c")], ids=["pyspider-zk", "pyspider"]
)
def test_a_scheduler_joins_takes_messages_and_leaves(
    run: Run,
    path: Path,
    state: Callable[[], dict[str, Any]],
    eventually: Callable[..., None],
    tmp_path: Path,
    program: tuple[str, ...],
) -> None:
    with process(
        path, "scheduler", *CLASS, "--xmlrpc-port", 0, folder=tmp_path, program=program
    ) as child:
        eventually(lambda: [each["leader"] for each in state().get("members", ())] == [True])

        unknown = run("-c", path, "send-message", "project", "hello")
        assert (unknown.exit_code, unknown.stdout) == (1, "")
        assert unknown.stderr == "Error: there is no project 'project'\n"
        project(tmp_path)
        assert run("-c", path, "send-message", "project", "hello").exit_code == 0
        eventually(lambda: state()["queues"]["scheduler2fetcher"] == 1)
        assert run("-c", path, "scale", 1).output == "1 schedulers run\n"

        child.terminate()
        assert child.wait() == 0
    assert state()["members"] == []


@pytest.mark.zk
@pytest.mark.redis
def test_all_refuses_a_cluster_with_other_slots_once(
    cluster: Settings, redis_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_SLOTS", "8")
    result = ended(run("--zookeeper", hosts(cluster), "--message-queue", redis_url, "all"), 4)
    assert result.stderr.startswith(f"Error: the cluster at {cluster.root} was born with 256 slots")
    assert result.stderr.count("\n") == 1


@pytest.mark.zk
def test_scale_asks_the_up_that_runs_the_cluster(cluster: Settings, run: Run) -> None:
    assert run("scale", "4", "--no-wait", "--zookeeper", hosts(cluster)).exit_code == 0
    with connected(cluster) as connection:
        assert ScaleNode(connection, Tree(cluster.root)).get() == 4


def test_scale_refuses_what_no_up_would_read(run: Run) -> None:
    result = ended(run("scale", "16385", "--no-wait", "--zookeeper", "127.0.0.1:1"), 2)
    assert "16385 is not in the range 1<=x<=16384" in result.stderr


@pytest.mark.zk
def test_scale_says_how_many_run_when_it_gives_up(cluster: Settings, run: Run) -> None:
    result = ended(run("scale", "4", "--timeout", "0", "--zookeeper", hosts(cluster)), 3)
    assert "1 schedulers run after 0 s, not 4" in result.stderr


@pytest.mark.zk
@pytest.mark.redis
def test_commands_and_schedulers_speak_tls_with_each_other(
    run: Run,
    path: Path,
    state: Callable[[], dict[str, Any]],
    eventually: Callable[..., None],
    tmp_path: Path,
) -> None:
    # given
    files = authority(tmp_path)
    config = json.loads(path.read_text())
    config["zookeeper"] |= {
        "advertise": "localhost",
        "xmlrpc_tls": True,
        "xmlrpc_tls_ca": str(files.ca),
        "xmlrpc_tls_certificate": str(files.server),
        "xmlrpc_tls_key": str(tmp_path / "missing"),
    }
    path.write_text(json.dumps(config))
    # when
    with process("-c", path, "scheduler", "--xmlrpc-port", 0, folder=tmp_path) as child:
        assert child.wait(180) == 2
        said = "".join(rest(child))
    assert f"xmlrpc_tls_key: cannot use {files.server}, {tmp_path / 'missing'}" in said
    # and
    config["zookeeper"]["xmlrpc_tls_key"] = str(files.server)
    path.write_text(json.dumps(config))
    with process("-c", path, "scheduler", "--xmlrpc-port", 0, folder=tmp_path) as child:
        eventually(lambda: [each["leader"] for each in state().get("members", ())] == [True])
        # then
        assert state()["members"][0]["address"].startswith("https://localhost:")
        project(tmp_path)
        assert run("-c", path, "send-message", "project", "hello").exit_code == 0
        child.terminate()
        assert child.wait() == 0


@pytest.mark.zk
def test_a_message_without_a_scheduler_is_refused(run: Run, cluster_settings: Settings) -> None:
    result = run("--zookeeper", hosts(cluster_settings), "send-message", "project", "hello")
    assert result.exit_code == 3
    assert "no scheduler runs" in result.stderr


@pytest.mark.zk
@pytest.mark.redis
def test_an_address_that_others_reach_needs_the_secret_or_a_word(
    path: Path,
    state: Callable[[], dict[str, Any]],
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    everywhere = ["--xmlrpc-host", "0.0.0.0", "--xmlrpc-port", "0"]  # noqa: S104
    with process("-c", path, "scheduler", *everywhere, folder=tmp_path) as refused:
        assert refused.wait(180) == 2
        said = "".join(rest(refused))
    assert "Error: --xmlrpc-host 0.0.0.0: whoever reaches XML-RPC there may change" in said
    assert "secret_file" in said
    assert "--insecure" in said
    assert "Traceback" not in said
    with process("-c", path, "scheduler", *everywhere, "--insecure", folder=tmp_path) as child:
        eventually(lambda: len(state().get("members", ())) == 1)
        child.terminate()
        assert child.wait() == 0
        assert "XML-RPC has no secret: whoever reaches it may" in "".join(rest(child))


OWN = """
from pyspider.{module} import {base}


class Own({base}):
    def run(self):
        print("runs", flush=True)
        super().run()
"""


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.parametrize(
    ("command", "option", "module", "base"),
    [
        ("result-worker", "result-cls", "result", "ResultWorker"),
        ("processor", "processor-cls", "processor", "Processor"),
        ("fetcher", "fetcher-cls", "fetcher", "Fetcher"),
    ],
)
def test_a_component_of_a_user_s_own_class_is_shown_like_ours(
    path: Path,
    state: Callable[[], dict[str, Any]],
    cluster: Settings,  # noqa: ARG001 - `state` needs one
    tmp_path: Path,
    command: str,
    option: str,
    module: str,
    base: str,
) -> None:
    (tmp_path / "own.py").write_text(OWN.format(module=module, base=base))
    before = len(state()["components"].get(command, ()))
    words = ("-c", path, command, f"--{option}", "own.Own")
    with process(*words, folder=tmp_path) as child:
        lines_until(child, "runs")
        shown = [each["pid"] for each in state()["components"][command]]
        assert (len(shown), child.pid in shown) == (before + 1, True)
        child.terminate()
        assert child.wait() == 0
    assert len(state()["components"].get(command, ())) == before


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_a_web_ui_that_cannot_listen_says_where_and_what_to_do(
    run: Run, path: Path, cluster: Settings, host: str
) -> None:
    port = cluster.hosts.partition(":")[2]  # ZooKeeper listens there
    for own in ((), ("--webui-instance", "pyspider.webui.app.app")):
        result = run("-c", path, "webui", "--insecure", "--host", host, "--port", port, *own)
        assert result.exit_code == 1, result.output
        assert f"Error: cannot listen at {host}:{port} (" in result.stderr
        assert "choose another --port, 0 for any, or --host\n" in result.stderr
        assert "Traceback" not in result.output
        del result
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()  # Tornado leaves a socket open that it could not bind


@pytest.mark.zk
@pytest.mark.redis
def test_a_scheduler_that_cannot_listen_says_so_once(
    path: Path, tmp_path: Path, cluster: Settings
) -> None:
    port = cluster.hosts.partition(":")[2]
    with process("-c", path, "scheduler", "--xmlrpc-port", port, folder=tmp_path) as child:
        assert child.wait() == 1
        told = "".join(rest(child))
    assert "Error: XML-RPC cannot listen" in told
    assert "Traceback" not in told


@pytest.mark.zk
@pytest.mark.redis
def test_a_web_ui_needs_no_link_to_a_scheduler(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDULER_NAME", "/web/scheduler")
    monkeypatch.setenv("WEBUI_PORT", "tcp://10.0.0.1:5000")
    with process("-c", path, "webui", "--port", 0, folder=tmp_path) as child:
        lines_until(child, "webui running on 127.0.0.1:")
        child.terminate()
        assert child.wait() == 0
