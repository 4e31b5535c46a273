"""``status`` shows a real cluster and its real queues."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspider.message_queue import connect_message_queue
from rich.console import Console

from pyspider_zk.cli.status import Observer, Overview
from pyspider_zk.cli.status import picture as tables_of
from pyspider_zk.cluster.records import (
    Assignment,
    Cluster,
    Component,
    ComponentKind,
    Load,
    Member,
    Meta,
    Slot,
)
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.queue_sizes import QueueSizes
from tests.cli.conftest import MEMBER, Run, announced, ended, hosts
from tests.support.crew import Cable
from tests.support.processes import PROGRAM, ROOT, lines_until, process


def fill(url: str, slots: int) -> None:
    """Put messages into every kind of queue."""
    queues = connect(url, 0, slots)
    queues.slot_queues.publish(
        [Message(QueueKind.NEWTASK, slot, {"project": "p"}) for slot in range(3)]
        + [Message(QueueKind.STATUS, 1, {"project": "p"})]
    )
    queues.close()
    connect_message_queue("newtask_queue", url).put({"project": "p"})
    connect_message_queue("scheduler2fetcher", url).put({"project": "p"})


@pytest.mark.zk
@pytest.mark.redis
def test_json_tells_members_components_and_queues(
    run: Run, cluster: Settings, redis_url: str
) -> None:
    fill(redis_url, cluster.slots)
    result = run("--zookeeper", hosts(cluster), "--message-queue", redis_url, "status", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    (member,) = found["members"]
    assert member["number"] == found["leader"] == 0
    assert (member["address"], member["slots"]) == ("10.0.0.1:23333", cluster.slots)
    assert (member["projects"], member["pending"], member["leader"]) == (3, 7, True)
    assert member["incarnation"]
    assert found["unserved_slots"] == 0
    assert found["epoch"] > 0
    assert [each["host"] for each in found["components"]["processor"]] == ["box-2"]
    assert found["queues"] == {
        "newtask_queue": 4,
        "status_queue": 1,
        "scheduler2fetcher": 1,
        "fetcher2processor": 0,
        "processor2result": 0,
        "dead_letters": 0,
    }


@pytest.mark.zk
def test_without_a_message_queue_the_lengths_are_unknown(run: Run, cluster: Settings) -> None:
    result = run("status", "--json", "--zookeeper", hosts(cluster))
    assert json.loads(result.stdout)["queues"] is None


@pytest.mark.zk
def test_a_message_queue_that_is_away_does_not_hide_the_members(
    run: Run, cluster: Settings
) -> None:
    queue = "redis://:secret@127.0.0.1:1/0"
    result = run("--message-queue", queue, "status", "--zookeeper", hosts(cluster))
    assert "10.0.0.1:23333" in result.stdout
    assert "Error: Redis at 127.0.0.1:1" in result.stderr
    assert result.exit_code == 3
    assert "secret" not in result.output


@pytest.mark.zk
@pytest.mark.redis
def test_the_cluster_that_up_runs_in_this_folder_is_found(
    run: Run, cluster: Settings, redis_url: str
) -> None:
    with announced(hosts(cluster), redis_url):
        found = json.loads(run("status", "--json").stdout)
        elsewhere = run("--data-path", "other", "status")
    assert len(found["members"]) == 1
    assert found["queues"]["newtask_queue"] == 0
    assert elsewhere.exit_code == 3


@pytest.mark.zk
def test_a_root_without_a_cluster_is_named(run: Run, cluster_settings: Settings) -> None:
    result = ended(run("status", "--zookeeper", hosts(cluster_settings)), 4)
    assert f"there is no cluster at {cluster_settings.root}" in result.stderr


@pytest.mark.zk
def test_watch_goes_on_until_it_is_interrupted(cluster: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyspider_zk.cli.main", "status", "--json", "--watch"]
    environ = os.environ | {
        "PYSPIDER_ZK_HOSTS": cluster.hosts,
        "PYSPIDER_ZK_ROOT": cluster.root,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with subprocess.Popen(
        command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        documents = [json.loads(child.stdout.readline()) for _ in range(2)]
        child.send_signal(signal.SIGINT)
        child.stdout.read()
    assert [document["slots"] for document in documents] == [cluster.slots] * 2
    assert child.returncode == 0


@pytest.mark.zk
def test_watch_tells_once_of_an_outage_and_goes_on(cluster: Settings, tmp_path: Path) -> None:
    with closing(Cable(cluster.hosts)) as cable:
        address = cable.address
        where = ("--zookeeper", hosts(replace(cluster, hosts=address)))
        with process(*where, "status", "--json", "--watch", folder=tmp_path) as child:
            lines_until(child, "{")
            cable.cut()
            *_, told = lines_until(child, "ZooKeeper")
            cable.mend()
            (again,) = lines_until(child, "\n")
            child.send_signal(signal.SIGINT)
            assert child.wait() == 0
    assert address in told
    assert json.loads(again)["slots"] == cluster.slots


@pytest.mark.zk
def test_on_a_terminal_an_outage_takes_the_place_of_the_tables_while_it_lasts(
    cluster: Settings, tmp_path: Path
) -> None:
    def shown_until(text: str) -> None:
        shown = ""
        while text not in shown:
            shown += os.read(screen, 4096).decode(errors="replace")

    screen, terminal = pty.openpty()
    with closing(Cable(cluster.hosts)) as cable, open(screen):
        where = ("--zookeeper", hosts(replace(cluster, hosts=cable.address)))
        environ = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
        with subprocess.Popen(
            [*PROGRAM, *where, "status", "--watch"], cwd=tmp_path, env=environ, stdout=terminal
        ) as child:
            os.close(terminal)
            try:
                shown_until("1 member, leader 0")
                cable.cut()
                shown_until("ZooKeeper at")
                cable.mend()
                shown_until("1 member, leader 0")
                child.send_signal(signal.SIGINT)
                assert child.wait() == 0
            finally:
                child.kill()


@pytest.mark.zk
@pytest.mark.redis
def test_watch_goes_on_while_the_message_queue_is_away(
    cluster: Settings, redis_server: RedisServer, redis_url: str, tmp_path: Path
) -> None:
    with closing(Cable(redis_server.address)) as cable:
        address = cable.address
        url = redis_url.replace(redis_server.address, address)
        where = ("--zookeeper", hosts(cluster), "--message-queue", url)
        with process(*where, "status", "--json", "--watch", folder=tmp_path) as child:
            assert json.loads(*lines_until(child, "{"))["queues"]
            cable.cut()
            *_, without, told = lines_until(child, "Redis at")
            cable.mend()
            *_, again = lines_until(child, '"dead_letters"')
            child.send_signal(signal.SIGINT)
            assert child.wait() == 0
    assert json.loads(without)["queues"] is None
    assert told.startswith(f"Redis at {address}")
    assert json.loads(again)["queues"]


@pytest.mark.zk
def test_watch_ends_well_though_it_is_interrupted_in_the_middle_of_a_request(
    run: Run, cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo takes whatever happens then for a lost connection."""
    read, send, reads = Observer.read, socket.socket.send, []

    def noted(observer: Observer) -> Overview:
        reads.append("begun")
        return read(observer)

    def interrupted(it: socket.socket, data: bytes, *flags: int) -> int:
        is_request = data == b"\0" and threading.current_thread() is threading.main_thread()
        if is_request and reads == ["begun"]:
            reads.append("interrupted")
            signal.raise_signal(signal.SIGINT)
        return send(it, data, *flags)

    monkeypatch.setattr(Observer, "read", noted)
    monkeypatch.setattr(socket.socket, "send", interrupted)
    result = run("--zookeeper", hosts(cluster), "status", "--json", "--watch")

    assert reads == ["begun", "interrupted"]
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["slots"] == cluster.slots


@pytest.mark.zk
def test_watch_ends_well_though_it_is_interrupted_before_there_is_a_connection(
    run: Run, cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = Observer.__enter__

    def interrupted(observer: Observer) -> Observer:
        signal.raise_signal(signal.SIGINT)
        return enter(observer)

    monkeypatch.setattr(Observer, "__enter__", interrupted)
    ended(run("--zookeeper", hosts(cluster), "status", "--json", "--watch"))


def test_watch_ends_well_though_what_it_asked_when_it_was_interrupted_fails(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Observer) -> None:
        signal.raise_signal(signal.SIGINT)
        for thread in threading.enumerate():
            if thread.name == "signal":
                thread.join()
        raise Unavailable("no ZooKeeper answers")

    monkeypatch.setattr(Observer, "__enter__", interrupted)
    result = run("--zookeeper", "127.0.0.1:1", "status", "--watch")
    assert (result.exit_code, result.output) == (0, "")


def test_a_zookeeper_that_is_away_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspider_zk.cli.status.PATIENCE", 0.2)
    result = ended(run("status", "--zookeeper", "127.0.0.1:1"), 3)
    assert result.stderr.startswith("Error: no ZooKeeper answers at 127.0.0.1:1")


def test_without_any_cluster_the_remedy_is_told(run: Run) -> None:
    assert "pyspider-zk up" in ended(run("status"), 3).stderr


def picture(found: Cluster, queues: Mapping[str, int], width: int = 160) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(tables_of(Overview(found, queues), width, 1000.0 + 3661))
    return captured.get()


def a_cluster(**changes: Any) -> Cluster:
    first, second, gone = MemberId(0, "aaaaaaaaaaaa"), MemberId(1, "bbbbbbbbbbbb"), MemberId(2, "c")
    slots = (Slot(first, 1), Slot(first, 2, second), Slot(second, 1), Slot(gone, 1))
    values: dict[str, Any] = {
        "meta": Meta(4),
        "assignment": Assignment(9, slots),
        "leader": first,
        "members": {
            first: MEMBER,
            second: Member("10.0.0.2:1", "box-2", 12, "0.1.0", started=1000.0, draining=True),
        },
        "loads": {first: Load(projects=5, pending=17)},
    }
    return Cluster(**values | changes)


def test_the_picture_shows_who_leads_drains_and_moves() -> None:
    text = picture(a_cluster(), {})
    assert "2 members, leader 0, 4 slots (1 moving), epoch 9" in text
    leader, draining = (line for line in text.splitlines() if "10.0.0." in line)
    assert "leader" in leader
    assert "aaaaaaaa " in leader
    assert "1:01:01" in leader
    assert "draining" in draining
    assert "1 slot without a running owner" in text


def test_the_picture_tells_what_is_away_in_quarantine_and_unreadable() -> None:
    loads = {MemberId(1, "bbbbbbbbbbbb"): Load(quarantined=2, away=("taskdb",))}
    text = picture(a_cluster(loads=loads, unreadable={"/crawl/members/x": "no Member"}), {})
    assert "taskdb does not answer member 1" in text
    assert "draining without taskdb" in text
    assert "2 projects in quarantine" in text
    assert "1 znode passed over as unreadable: /crawl/members/x (no Member)" in text


def speaking(first: tuple[int, int], second: tuple[int, int]) -> Cluster:
    known = a_cluster()
    ranges = zip(sorted(known.members.items()), (first, second), strict=True)
    members = {member: replace(record, protocols=its) for (member, record), its in ranges}
    return replace(known, members=members, meta=Meta(4, 1))


def test_the_picture_tells_what_an_upgrade_waits_for() -> None:
    assert "protocol" not in picture(speaking((1, 1), (1, 1)), {})
    assert "protocol 1, and 2 waits for member 0" in picture(speaking((1, 1), (1, 2)), {})
    text = picture(speaking((1, 3), (1, 2)), {})
    assert "protocol 1, and all speak a higher one: `pyspider-zk upgrade`" in text


def test_the_json_tells_it_too() -> None:
    waiting = speaking((1, 1), (1, 2)).as_dict()
    assert (waiting["protocol"], waiting["can_be_raised"]) == (1, False)
    assert waiting["held_back_by"] == ["member 0"]
    assert speaking((1, 2), (1, 2)).as_dict()["can_be_raised"]


def test_the_picture_of_an_empty_cluster_says_so() -> None:
    empty = Cluster(Meta(4), Assignment.vacant(4))
    assert "0 members, no leader, 4 slots, epoch 0" in picture(empty, {})


def test_the_picture_shows_queues_and_components() -> None:
    components = {ComponentKind.WEBUI: {"x": Component("box", 3, "1", 1000.0, "10.0.0.9:5000")}}
    text = picture(a_cluster(components=components), {"newtask_queue": 12345, "dead_letters": 1})
    assert "12,345" in text
    assert "10.0.0.9:5000" in text


def test_the_picture_shows_what_a_worker_does() -> None:
    does = Component("box", 3, "1", 0.0, tasks_per_s=12.5, memory=97 * 2**20, oldest="p:1")
    components = {ComponentKind.PROCESSOR: {"x": does}}
    text = picture(a_cluster(components=components), {}, width=200)
    assert "12.5" in text
    assert "97" in text
    assert "p:1" in text


HOSTILE = ["[fd00::5]:23333", "[/x]", "[red]", ":smile:", "a\x1b[2Jb"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_wrote_is_shown_as_it_is(text: str) -> None:
    """Each record is its own process's; rich reads markup in text, a terminal what follows ESC."""
    member = replace(MEMBER, address=text, host=text, version=text)
    component = Component(text, 3, text, 1000.0, text, oldest=text)
    found = a_cluster(
        members={MemberId(0, "aaaaaaaaaaaa"): member},
        components={ComponentKind.WEBUI: {"x": component}},
        unreadable={text: text},
    )
    shown = picture(found, {text: 1}, width=300)
    assert shown.count(text.replace("\x1b", r"\x1b")) == 10
    assert "\x1b" not in shown


@pytest.mark.parametrize("started", [-1e300, 1e300])
def test_a_member_whose_start_is_no_time_is_shown(started: float) -> None:
    member = replace(MEMBER, started=started)
    component = Component("box", 3, "1", started, "10.0.0.9:5000")
    text = picture(
        a_cluster(
            members={MemberId(0, "aaaaaaaaaaaa"): member},
            components={ComponentKind.WEBUI: {"x": component}},
        ),
        {},
    )
    for address in (MEMBER.address, component.address):
        (line,) = (line for line in text.splitlines() if address in line)
        assert "unreadable" in line


def test_a_narrow_terminal_keeps_what_matters() -> None:
    narrow = picture(a_cluster(), {}, width=80)
    assert "…" not in narrow
    assert "10.0.0.1:23333" in narrow
    assert "box-2" not in narrow


@pytest.mark.redis
@pytest.mark.usefixtures("redis_server")  # skip where it is missing
def test_a_redis_that_goes_away_between_two_questions_is_told_as_such(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        queues = connect(server.url, 0, slots=8)
        assert QueueSizes(queues).read()["scheduler2fetcher"] == 0

    with pytest.raises(Unavailable):
        queues.work.lengths()
    queues.close()
