"""Where components may listen, and what ``--insecure`` opens; a renderer without its browser."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import click
import pytest

from pyspider_zk.cli.components import in_cluster
from pyspider_zk.cli.stock import set_apart
from pyspider_zk.components.log_sharing import LogSharing
from pyspider_zk.config import Settings
from pyspider_zk.errors import MissingService
from tests.cli.conftest import Run, ended
from tests.support.ports import own_port
from tests.support.processes import lines_until, process, rest

EVERYWHERE = "0.0.0.0"  # noqa: S104 - refused unless somebody insists
STOCK = {
    "fetcher": (
        *("--fetcher-cls", "pyspider.fetcher.Fetcher", "--xmlrpc"),
        *("--xmlrpc-host", EVERYWHERE),
    ),
    "webui": ("--webui-instance", "pyspider.webui.app.app", "--host", EVERYWHERE),
    "phantomjs": ("--phantomjs-path", "there-is-no-phantomjs", "--host", EVERYWHERE),
    "renderer": ("--host", EVERYWHERE),
}


@pytest.mark.parametrize("command", STOCK)
def test_parts_without_a_login_do_not_listen_for_others(run: Run, command: str) -> None:
    result = run(command, *STOCK[command])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    for told in (f"host {EVERYWHERE}: whoever reaches", "127.0.0.1", "--insecure"):
        assert told in result.stderr


def test_who_insists_gets_it(run: Run) -> None:
    ended(run("phantomjs", *STOCK["phantomjs"], "--insecure"))


@pytest.mark.redis
@pytest.mark.parametrize("is_only_made", [False, True])
def test_a_component_shares_its_log_unless_a_web_ui_only_makes_one(
    redis_url: str, is_only_made: bool
) -> None:
    def fetcher(**_: object) -> bool:
        return any(isinstance(each, LogSharing) for each in logging.root.handlers)

    given = {"fetcher_cls": "pyspider_zk.hooks.ClusterFetcher", "get_object": is_only_made}
    with click.Context(click.Command("webui"), obj={"message_queue": redis_url}):
        assert in_cluster("fetcher", fetcher)(**given) is not is_only_made


def test_a_benchmark_listens_on_loopback_wherever_the_cluster_does() -> None:
    config = {
        "scheduler": {"xmlrpc_host": EVERYWHERE, "xmlrpc_port": 1},
        "fetcher": {"xmlrpc": True, "xmlrpc_host": EVERYWHERE},
        "webui": {"host": EVERYWHERE},
    }
    set_apart("bench", config)
    assert config == {
        "scheduler": {"xmlrpc_port": 1},
        "fetcher": {"xmlrpc": True},
        "webui": {"host": "127.0.0.1"},
    }


@pytest.fixture
def path(config: Callable[[str], Path], cluster_settings: Settings, redis_url: str) -> Path:
    """Give the config.json of a cluster whose parts all listen for others, in the open."""
    section = {"hosts": cluster_settings.hosts, "root": cluster_settings.root}
    parts = {
        "scheduler": {"xmlrpc_host": EVERYWHERE, "xmlrpc_port": 0},
        "fetcher": {"xmlrpc": True, "xmlrpc_host": EVERYWHERE, "xmlrpc_port": 0},
        "webui": {"host": EVERYWHERE, "port": own_port()},
        "phantomjs": {"phantomjs_path": "there-is-no-phantomjs", "host": EVERYWHERE},
    }
    return config(json.dumps({"zookeeper": section, "message-queue": redis_url, **parts}))


@pytest.mark.zk
@pytest.mark.redis
def test_a_fetcher_s_door_is_closed_too(path: Path, tmp_path: Path) -> None:
    with process("-c", path, "fetcher", folder=tmp_path) as child:
        assert child.wait(180) == 2
        said = "".join(rest(child))
    assert f"--xmlrpc-host {EVERYWHERE}: whoever reaches the fetcher's XML-RPC there may" in said
    assert "Traceback" not in said


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
def test_insecure_means_the_same_for_all_parts_of_all(path: Path, tmp_path: Path) -> None:
    with process("-c", path, "all", folder=tmp_path) as child:
        assert child.wait(180) == 2
        said = "".join(rest(child))
    for part in ("XML-RPC", "the fetcher's XML-RPC", "the web UI", "phantomjs"):
        assert f"whoever reaches {part} there may" in said
    with process("-c", path, "all", "--insecure", folder=tmp_path) as child:
        said = "".join(lines_until(child, "webui running on"))
        port = json.loads(path.read_text())["webui"]["port"]
        with urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            assert answer.status == 200
        child.terminate()
        said += "".join(rest(child))
    assert "whoever reaches it may make it fetch" in said
    assert "whoever reaches it may change and delete" in said
    assert "there may" not in said


def test_a_missing_browser_is_named_with_its_remedy(run: Run) -> None:
    result = run("renderer", "--chromium", "/no/chrome")
    assert result.exit_code == MissingService.exit_code
    assert "/no/chrome: Chromium is missing" in result.stderr
    assert "apt install chromium-headless-shell" in result.stderr
