"""``one`` and ``bench`` run on pyspider's own classes; a component that fails says so once."""

import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pyspider_zk.cli.stock import set_apart
from pyspider_zk.config import Settings
from tests.cli.conftest import Run, ended, hosts
from tests.support.processes import lines_until, process, rest

pytestmark = pytest.mark.slow  # each runs whole components of pyspider

SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        self.crawl("data:,hello", callback=self.page)

    def page(self, response):
        return {"found": response.text}
"""
FAILING = """
from pyspider.processor.processor import Processor

from pyspider_zk.errors import Unavailable


class Failing(Processor):
    def run(self):
        raise Unavailable("nothing at redis://:secret@host/0")
"""
ASKING = """
import logging


class Asking:
    def __init__(self, resultdb, inqueue):
        pass

    def run(self):
        for name in ("pyspider_zk.early", "result"):
            print(name, "disabled:", logging.getLogger(name).disabled)
"""
CLUSTER = {
    "scheduler": {"scheduler-cls": "pyspider_zk.hooks.ClusterScheduler"},
    "processor": {"processor-cls": "pyspider_zk.hooks.ClusterProcessor"},
    "fetcher": {"fetcher-cls": "pyspider_zk.hooks.ClusterFetcher"},
    "result-worker": {"result-cls": "pyspider_zk.hooks.ClusterResultWorker"},
}
STOCK = {
    "scheduler": {"xmlrpc_port": "0"},
    "processor": {"processor-cls": "failing.Failing"},
    "fetcher": {"fetcher-cls": "pyspider.fetcher.Fetcher"},
    "result-worker": {"result-cls": "pyspider.result.ResultWorker"},
    "webui": {"webui-instance": "pyspider.webui.app.app", "host": "127.0.0.1", "port": 0},
}


def test_one_crawls_without_a_cluster_whatever_config_json_says(
    config: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "hello.py").write_text(SCRIPT)
    path = config(json.dumps(CLUSTER))
    with process("-c", path, "one", "hello.py", folder=tmp_path) as child:
        lines_until(child, '"result": {"found": "hello"}')
        child.send_signal(signal.SIGINT)


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.parametrize("way", ["subprocess", "thread"])
def test_a_component_that_fails_under_all_says_so_once(
    config: Callable[[str], Path],
    tmp_path: Path,
    way: str,
    cluster_settings: Settings,
    redis_url: str,
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    where = {"zookeeper": hosts(cluster_settings), "message_queue": redis_url}
    path = config(json.dumps({**STOCK, **where}))
    arguments = ("-c", path, "--phantomjs-proxy", "127.0.0.1:1", "all", "--run-in", way)
    with process(*arguments, folder=tmp_path) as child:
        lines = lines_until(child, "webui running on")
        if not any("Error: " in line for line in lines):
            lines += lines_until(child, "Error: ")
        child.terminate()
        lines += rest(child)
    errors = [line for line in lines if "Error" in line or "Traceback" in line]
    assert errors == ["Error: processor: nothing at redis://:***@host/0\n"]


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_component_that_ends_under_all_stays_no_zombie(
    config: Callable[[str], Path],
    tmp_path: Path,
    cluster_settings: Settings,
    redis_url: str,
    eventually: Callable[..., None],
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    where = {"zookeeper": hosts(cluster_settings), "message_queue": redis_url}
    path = config(json.dumps({**STOCK, **where}))
    arguments = ("-c", path, "--phantomjs-proxy", "127.0.0.1:1", "all")
    with process(*arguments, folder=tmp_path) as child:
        if "Error: processor: " not in "".join(lines_until(child, "webui running on")):
            lines_until(child, "Error: processor: ")
        eventually(lambda: states(child.pid))  # the others run
        eventually(lambda: "Z" not in states(child.pid))
        child.terminate()
        assert child.wait() == 0


def states(parent: int) -> list[str]:
    """Return the state of each child process, as the kernel writes it."""
    found = []
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it is gone meanwhile
            found.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return found


def test_bench_gets_no_class_that_it_chooses_itself() -> None:
    config = {
        "scheduler": {"scheduler_cls": "pyspider.scheduler.Scheduler", "xmlrpc_port": 1},
        "webui": {"webui_instance": "pyspider.webui.app.app"},
    }
    set_apart("bench", config)
    assert config["scheduler"] == {"xmlrpc_port": 1}
    assert config["webui"]["webui_instance"] == "pyspider.webui.app.app"


def test_one_keeps_a_class_that_is_no_cluster_s() -> None:
    config = {
        "scheduler": {"scheduler_cls": "pyspider.scheduler.OneScheduler"},
        "processor": {"processor_cls": "pyspider_zk.hooks.ClusterProcessor"},
    }
    set_apart("one", config)
    assert config["scheduler"] == {"scheduler_cls": "pyspider.scheduler.OneScheduler"}
    assert config["processor"] == {}


def test_loggers_that_exist_before_pyspider_sets_logging_up_are_heard(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "asking.py").write_text(ASKING)
    for name in ("pyspider_zk.early", "result"):  # the second is the result worker's own
        logging.getLogger(name)
    result = ended(run("result-worker", "--result-cls", "asking.Asking"))
    assert result.stdout == "pyspider_zk.early disabled: False\nresult disabled: False\n"
