"""The command line, run as its users run it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
from pyspider.run import cli, make_folder

from tests.patches.spiders import DEADLINE, Spider
from tests.support.ports import own_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # each runs whole components of pyspider

Run = Callable[..., subprocess.Popen[str]]
PYSPIDER = [sys.executable, "-m", "pyspider.run"]


def test_a_data_folder_that_another_process_made_meanwhile_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    seen = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != str(folder) and seen(path))
    make_folder(str(folder))
    assert folder.is_dir()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start a pyspider in an empty folder."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, within: Sequence[str] = (), **kwargs: Any) -> subprocess.Popen[str]:
        command = [*within, *PYSPIDER, *arguments]
        process = subprocess.Popen(
            command, cwd=tmp_path, text=True, start_new_session=True, **kwargs
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children too, whatever it came to
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Write a config.json with own ports, a dash and a section that pyspider does not know."""
    webui, rpc = own_port(), own_port()
    config = {
        "webui": {"port": webui},
        "scheduler": {"xmlrpc-port": rpc, "threads": 2},
        "result_worker": {"result-cls": "pyspider.result.ResultWorker"},
        "phantomjs": {"phantomjs_path": "there-is-no-phantomjs"},
        "zookeeper": {"hosts": "elsewhere"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    return config


def output(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=DEADLINE)
    return out


@pytest.mark.parametrize("name", ["result_worker", "result-worker", "send_message", "send-message"])
def test_commands_have_both_spellings(run: Run, name: str) -> None:
    process = run(name, "--help", stdout=subprocess.PIPE)
    assert "Usage:" in output(process)
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["result_worker", "result-worker"])
def test_a_section_of_the_config_reaches_its_command(run: Run, name: str, tmp_path: Path) -> None:
    section = {"result_worker": {"result-cls": "there.is.no.such.Worker"}}
    (tmp_path / "config.json").write_text(json.dumps(section))
    process = run("-c", "config.json", name, stderr=subprocess.PIPE)
    assert "No module named 'there'" in process.communicate(timeout=DEADLINE)[1]


@pytest.mark.parametrize("component", ["scheduler", "fetcher", "processor", "result_worker"])
def test_sigterm_ends_a_component(run: Run, component: str) -> None:
    options = ["--no-xmlrpc"] if component == "scheduler" else []
    process = run(component, *options, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if "starting..." in line:
            break
    process.terminate()
    assert process.wait(DEADLINE) == 0


def test_sigterm_before_there_is_a_component_is_not_forgotten() -> None:
    code = "import os, signal; from pyspider.run import quit_on_sigterm; quit_on_sigterm([]);"
    code += "os.kill(os.getpid(), signal.SIGTERM); print('still here')"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")


def test_components_are_imported_before_threads_could_do_it_at_once(tmp_path: Path) -> None:
    code = """
import sys
from pyspider import run
from pyspider.libs import utils
def first_thread(*args, **kwargs):
    parts = ("scheduler", "fetcher", "processor", "result", "webui", "libs.wsgi_xmlrpc")
    missing = [part for part in parts if "pyspider." + part not in sys.modules]
    sys.exit(f"not imported: {missing}" if missing else 0)
utils.run_in_thread = first_thread
sys.argv = ["pyspider", "--phantomjs-proxy", "none", "all", "--run-in", "thread"]
run.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr[-300:]) == (0, done.stderr[-300:])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("run_in", ["subprocess", "thread"])
def test_all_crawls_a_site_and_ends_by_a_signal(
    run: Run, config: dict[str, Any], script: str, run_in: str, how: signal.Signals
) -> None:
    web = f"http://127.0.0.1:{config['webui']['port']}"
    process = run("-c", "config.json", "all", "--run-in", run_in)
    with requests.Session() as session:
        session.headers["Connection"] = "close"
        eventually(lambda: _answers(session, web))
        eventually(lambda: _listens(config["scheduler"]["xmlrpc-port"]))  # it may begin later
        assert session.post(f"{web}/debug/demo/save", data={"script": script}).text == "ok"
        for name, value in (("status", "RUNNING"), ("rate", "100/100")):
            form = {"pk": "demo", "name": name, "value": value}
            assert session.post(f"{web}/update", data=form).text == "ok"
        start = {"project": "demo"}
        eventually(lambda: session.post(f"{web}/run", data=start).json()["result"])
        results = f"{web}/results/dump/demo.txt"
        eventually(lambda: len(session.get(results).text.splitlines()) == 3)
    process.send_signal(how)
    assert process.wait(DEADLINE) == 0


def _answers(session: requests.Session, url: str) -> bool:
    try:
        return session.get(f"{url}/counter").ok
    except requests.ConnectionError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("cdn", [None, "//cdn.test/libs/"])
def test_the_log_says_so_if_pages_load_from_a_cdn(run: Run, cdn: str | None) -> None:
    port = own_port()
    named = ["--cdn", cdn] if cdn else []
    process = run("webui", "--port", str(port), *named, stderr=subprocess.PIPE)
    with requests.Session() as session:
        session.headers["Connection"] = "close"
        eventually(lambda: _answers(session, f"http://127.0.0.1:{port}"))
    process.terminate()
    _, log = process.communicate(timeout=DEADLINE)
    assert ("pages load js and css from //cdn.test/libs/" in log) == (cdn is not None)


def test_one_crawls_a_script(run: Run, script: str, tmp_path: Path) -> None:
    (tmp_path / "demo.py").write_text("# rate: 100\n# burst: 100\n" + script)
    process = run("one", "demo.py", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    titles = {json.loads(process.stdout.readline())["result"]["title"] for _ in range(3)}
    assert titles == {"front", "one", "two"}
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0


def test_one_asks_for_a_url_when_interactive(run: Run, script: str, tmp_path: Path) -> None:
    (tmp_path / "demo.py").write_text(script)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = run("one", "-i", "demo.py", **pipes)
    out, err = process.communicate("run()\nquit_pyspider()\n", timeout=DEADLINE)
    assert "pyspider shell - Select task" in out + err
    assert "process demo:on_start" in err
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["send_message", "send-message"])
def test_a_message_is_sent_to_a_scheduler(run: Run, spider: Spider, name: str) -> None:
    scheduler = spider.scheduler()
    spider.start(scheduler, "xmlrpc_run", port=0)
    assert scheduler.xmlrpc_ready.wait(DEADLINE)
    rpc = f"http://127.0.0.1:{scheduler.xmlrpc_port}/"
    process = run(name, "--scheduler-rpc", rpc, "demo", "hello")
    assert process.wait(DEADLINE) == 0
    task = spider.queues["out"].get(timeout=DEADLINE)
    assert task["project"] == "demo"
    assert task["fetch"]["save"] == ["__command__", "hello"]


def own_network() -> Sequence[str]:
    """Return what runs a command where no port is taken, which only root may; else nothing.

    Nothing only if the ports that bench.py has written in are free.
    """
    alone = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run([*alone, "true"], capture_output=True).returncode == 0:
            return alone
    for port in (5000, 23333):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port}, which the benchmark needs, is taken")
    return ()


def test_the_benchmark_runs_to_its_end(run: Run) -> None:
    options = ("--total", "20", "--show", "5", "--all-bench")
    process = run("bench", *options, within=own_network(), stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=3 * DEADLINE)
    assert process.returncode == 0, err
    assert "Crawled" in err


@pytest.mark.parametrize("component", ["scheduler", "fetcher"])
def test_xmlrpc_listens_on_loopback_unless_told_otherwise(component: str) -> None:
    options = {param.name: param for param in cli.commands[component].params}
    assert options["xmlrpc_host"].default == "127.0.0.1"
