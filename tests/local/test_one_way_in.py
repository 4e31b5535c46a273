"""What strangers can do to a cluster that `up` runs: nothing. What the secret opens: everything."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import xmlrpc.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kazoo.client import KazooClient
from pyspider.database import connect_database

from pyspider_zk.cluster.records import Member
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.local import programs
from pyspider_zk.local.folder import Running
from pyspider_zk.zookeeper.access import login
from tests.support.connected import looking, rpc_url
from tests.support.needed import skip_without_needed
from tests.support.ports import own_port
from tests.support.running_cluster import PROGRAM, listens, settings_of, up

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

METHODS = {
    "_quit": (),
    "newtask": ({"project": "kept", "taskid": "t", "url": "data:,t"},),
    "send_task": ({"project": "kept", "taskid": "t", "url": "data:,t"},),
    "update_project": (),
    "size": (),
    "webui_update": (),
    "local_size": (),
    "local_newtask": ({"project": "kept", "taskid": "t", "url": "data:,t"},),
    "local_drain": (),
    "submit_operation": ("delete", {"names": ["kept"]}, {"wait": False}, "root"),
    "plan_operation": ("delete", {"names": ["kept"]}),
    "list_projects": (),
    "list_events": (),
    "find_events": (),
    "list_failures": (),
    "list_failed_tasks": (),
    "search_tasks": (),
    "get_task": ("kept", "t"),
    "cancel_batch": ("b",),
    "system.listMethods": (),
}


@dataclass(frozen=True)
class Whole:
    """A running cluster, and its one scheduler."""

    folder: Path
    running: Running
    member: Member

    def stranger(self, login: str = "") -> xmlrpc.client.ServerProxy:
        """Return a stock client."""
        return xmlrpc.client.ServerProxy(f"http://{login}{self.member.address}/", allow_none=True)

    def secret(self) -> str:
        """Return the secret that `up` made."""
        return (self.folder / "data" / "secret").read_text(encoding="ascii").strip()

    def projects(self) -> list[str]:
        """Return the projects that there are."""
        return [row["name"] for row in connect_database(self.running.projectdb).get_all()]

    def processes(self) -> list[int]:
        """Return `up` and all that it started."""
        found = [self.running.pid]
        for pid in found:
            found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """Run a cluster with one scheduler and a project."""
    for needed in (programs.java, programs.zookeeper_class_path, programs.redis_server):
        with skip_without_needed():
            needed(os.environ)
    folder = tmp_path_factory.mktemp("whole")
    with up(folder, "--schedulers", "1") as running:
        row = {"status": "STOP", "script": "", "group": "", "comments": "", "rate": 1, "burst": 1}
        for name in ("kept", "given_up"):
            connect_database(running.projectdb).insert(name, row)
        with looking(settings_of(running)) as directory:
            (member,) = directory.members().values()
        yield Whole(folder, running, member)


@pytest.mark.parametrize("method", METHODS)
def test_without_the_secret_no_call_is_carried_out(whole: Whole, method: str) -> None:
    with pytest.raises(xmlrpc.client.ProtocolError) as refused, whole.stranger() as proxy:
        getattr(proxy, method)(*METHODS[method])
    assert refused.value.errcode == 401
    assert "kept" in whole.projects()


@pytest.mark.parametrize("login", ["root@", "root:@", "root:wrong@", "root:0000000000000000@"])
def test_a_wrong_secret_opens_nothing(whole: Whole, login: str) -> None:
    with pytest.raises(xmlrpc.client.ProtocolError) as refused, whole.stranger(login) as proxy:
        proxy.submit_operation(*METHODS["submit_operation"])
    assert refused.value.errcode == 401
    assert "kept" in whole.projects()


def test_a_page_of_another_site_deletes_nothing(whole: Whole) -> None:
    body = xmlrpc.client.dumps(METHODS["submit_operation"], "submit_operation")
    link = http.client.HTTPConnection(whole.member.address, timeout=60)
    headers = {
        "Origin": "http://evil.example",
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "no-cors",
        "Content-Type": "text/plain;charset=UTF-8",
    }
    link.request("POST", "/", body, headers)
    assert link.getresponse().status == 403
    link.close()


def test_a_stock_client_works_with_the_secret_in_its_url(whole: Whole) -> None:
    with whole.stranger(f"ann:{whole.secret()}@") as proxy:
        proxy.submit_operation("delete", {"names": ["given_up"]}, {"wait": False}, "root", "mine")
        said = [event for event in proxy.list_events() if event["data"].get("batch") == "mine"]
    assert {event["who"] for event in said} == {"ann"}


HEARING = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    def on_start(self):
        return {'began': True}

    def on_message(self, project, message):
        return {'heard': message}
"""


@pytest.fixture(scope="module")
def hearing(whole: Whole) -> Any:
    """Make a project that keeps what it is told; give a function that returns that."""
    row = {"status": "RUNNING", "script": HEARING, "group": "", "comments": ""}
    connect_database(whole.running.projectdb).insert("hearing", {**row, "rate": 9, "burst": 9})
    with whole.stranger(f"ann:{whole.secret()}@") as proxy:
        proxy.update_project()

    def results() -> list[Any]:
        resultdb = connect_database(whole.running.resultdb)
        there = "hearing" in resultdb.projects
        return [row["result"] for row in resultdb.select("hearing")] if there else []

    return results


def stock(whole: Whole, folder: Path, **sections: Any) -> list[str]:
    """Return the beginning of a command of stock pyspider, told in a file where this cluster is."""
    running = whole.running
    config = {f"{kind}db": getattr(running, f"{kind}db") for kind in ("task", "project", "result")}
    path = folder / "config.json"
    path.write_text(json.dumps({**config, **sections}), encoding="utf-8")
    path.chmod(0o600)
    return [sys.executable, "-m", "pyspider.run", "-c", str(path)]


def test_a_stock_send_message_works_with_the_secret_in_its_url(
    whole: Whole, tmp_path: Path, hearing: Any, eventually: Callable[..., None]
) -> None:
    url = rpc_url(whole.member.address, whole.secret())
    command = [*stock(whole, tmp_path, send_message={"scheduler_rpc": url}), "send_message"]
    told = subprocess.run(
        [*command, "hearing", "hello"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0, told
    eventually(lambda: {"heard": "hello"} in hearing())


def test_a_stock_web_ui_works_with_the_secret_in_its_url(
    whole: Whole, tmp_path: Path, hearing: Any, eventually: Callable[..., None]
) -> None:
    port = own_port()
    url = rpc_url(whole.member.address, whole.secret())
    command = [*stock(whole, tmp_path, webui={"scheduler_rpc": url}), "webui", "--port", str(port)]
    with (tmp_path / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=out)
    try:
        eventually(lambda: listens(f"http://127.0.0.1:{port}"))
        with urlopen(f"http://127.0.0.1:{port}/run", b"project=hearing") as answer:
            assert json.load(answer) == {"result": True}
        eventually(lambda: {"began": True} in hearing())
        with urlopen(f"http://127.0.0.1:{port}/counter") as answer:
            assert "hearing" in json.load(answer)
    finally:
        process.terminate()
        process.wait(60)


def test_the_secret_does_not_switch_quit_on(whole: Whole) -> None:
    with whole.stranger(f"ann:{whole.secret()}@") as proxy:
        with pytest.raises(xmlrpc.client.Fault, match="allow_quit"):
            proxy._quit()
        assert proxy.size() >= 0
    os.kill(whole.member.pid, 0)


def test_everything_listens_on_loopback_only(whole: Whole) -> None:
    listening = {where for pid in whole.processes() for where in _listening(pid)}
    assert len(listening) >= 4  # ZooKeeper, Redis, a scheduler, the web UI
    assert {where for where in listening if not _is_loopback(where)} == set()


def test_the_secret_is_in_its_file_and_nowhere_else(whole: Whole) -> None:
    secret = whole.secret().encode()
    file = whole.folder / "data" / "secret"
    assert len(secret) >= 43
    assert file.stat().st_mode & 0o777 == 0o600
    places = [Path(f"/proc/{pid}/cmdline") for pid in whole.processes()]
    places += [path for path in whole.folder.rglob("*") if path.is_file() and path != file]
    assert len(places) > 10
    assert [str(place) for place in places if secret in place.read_bytes()] == []


def test_what_was_presented_is_in_no_log(whole: Whole) -> None:
    with pytest.raises(xmlrpc.client.ProtocolError), whole.stranger("ann:hunter2-guess@") as proxy:
        proxy.size()
    logs = (whole.folder / "data" / "logs").glob("*.log*")
    assert [str(log) for log in logs if b"hunter2" in log.read_bytes()] == []


def test_the_commands_of_this_folder_find_the_secret(whole: Whole) -> None:
    told = json.loads((whole.folder / "data" / "up.json").read_text(encoding="utf-8"))
    assert told["secret_file"] == str(whole.folder / "data" / "secret")


def _listening(pid: int) -> Iterator[str]:
    """Yield the addresses that a process listens on, as the kernel writes them."""
    inodes = {f"socket:[{each}]": where for each, where in _table(pid)}
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = inodes.get(os.readlink(handle))
        except FileNotFoundError:
            continue
        if found:
            yield found


def _table(pid: int) -> Iterator[tuple[str, str]]:
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words: list[Any] = line.split()
            if words[3] == "0A":
                yield words[9], words[1]


def _is_loopback(where: str) -> bool:
    """Return whether an address of /proc/net/tcp is one: words in the host's order of bytes."""
    digits = where.partition(":")[0]
    raw = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    text = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    return text.removeprefix("::ffff:").startswith("127.") or text == "::1"


# --- a forged record in ZooKeeper ---------------------------------------------------------------


class LyingMember(BaseHTTPRequestHandler):
    """Says that all was done, and keeps what it was told."""

    heard: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.heard += [str(self.headers), body.decode()]
        batch = {"id": "forged", "operation": "stop", "state": "done", "created": 1.0}
        counts = {"total": 1, "done": 1, "failed": 0, "remaining": 0}
        answer = xmlrpc.client.dumps(({**batch, **counts},), methodresponse=True).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def liar(whole: Whole) -> Iterator[list[str]]:
    """Put a member into ZooKeeper that is none, the first to be asked; give what it hears.

    Whoever does that has the login to ZooKeeper.
    """
    heard: list[str] = []
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (LyingMember,), {"heard": heard})
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    settings = settings_of(whole.running)
    zk = KazooClient(settings.hosts, **login(settings))
    zk.start(20)
    path = Tree(settings.root).member(MemberId(0, "0"))
    zk.create(path, replace(whole.member, address=f"127.0.0.1:{server.server_port}").encode())
    yield heard
    zk.delete(path)
    zk.stop()
    zk.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_who_forged_a_member_is_not_believed_and_learns_no_secret(
    whole: Whole, liar: list[str]
) -> None:
    command = (*PROGRAM, "set-status", "CHECKING", "kept")
    told = subprocess.run(
        command, cwd=whole.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert liar, "it was asked"
    assert whole.secret() not in "".join(liar)
    assert (told.returncode, told.stdout[:35]) == (0, "status done: 1 of 1 project (batch "), told
    assert "forged" not in told.stdout
    assert connect_database(whole.running.projectdb).get("kept")["status"] == "CHECKING"


def test_a_message_that_is_refused_tells_no_secret(whole: Whole) -> None:
    url = f"http://ann:no-secret-of-theirs@{whole.member.address}/"
    command = (*PROGRAM, "--debug", "send-message", "--scheduler-rpc", url, "kept", "hello")
    told = subprocess.run(
        command, cwd=whole.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 3
    assert "401" in told.stderr
    assert "no-secret" not in told.stdout + told.stderr
