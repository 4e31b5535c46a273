"""What callers may do at a member that has joined: with the secret, and without one."""

import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.cluster.records import Member
from pyspider_zk.config import Settings
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.rpc.client import Credentials, call
from tests.support.connected import rpc_url
from tests.support.live_cluster import DEADLINE, LiveCluster

pytestmark = pytest.mark.zk

Eventually = Callable[..., None]
Ask = Callable[..., Any]
TASK = {"project": "locked", "taskid": "t", "url": "data:,t"}
CHANGES: list[tuple[str, tuple[Any, ...]]] = [
    ("submit_operation", ("stop", {"names": ["locked"]})),
    ("submit_operation", ("delete", {"all": True}, {"wait": False})),
    ("newtask", (TASK,)),
    ("send_task", (TASK,)),
    ("local_newtask", (TASK,)),
    ("local_send_task", (TASK,)),
]


@contextmanager
def joined(folder: Path, settings: Settings, eventually: Eventually) -> Iterator[ClusterScheduler]:
    """Run a scheduler of a cluster with a locked project and another."""
    cluster = LiveCluster(folder, settings)
    cluster.project("locked", "RUNNING", "news, Lock")
    cluster.project("open", "RUNNING")
    with cluster.scheduler() as scheduler:
        eventually(lambda: len(scheduler.fence.held) == settings.slots)
        yield scheduler


def address(scheduler: ClusterScheduler) -> str:
    return f"127.0.0.1:{scheduler.rpc.bound(DEADLINE)[1]}"


@pytest.fixture
def anybody(tmp_path: Path, cluster_settings: Settings, eventually: Eventually) -> Iterator[Ask]:
    """Give what asks a member that has no secret."""
    settings = replace(cluster_settings, secret="", slots=8)
    with joined(tmp_path, settings, eventually) as scheduler:
        member = Member(address(scheduler), "", 0, "", 0.0)
        yield lambda method, *args: call(member, method, *args, timeout=DEADLINE)


@pytest.fixture
def scheduler(
    tmp_path: Path, cluster_settings: Settings, eventually: Eventually
) -> Iterator[ClusterScheduler]:
    """Give a member that has a secret."""
    with joined(tmp_path, replace(cluster_settings, slots=8), eventually) as made:
        yield made


@pytest.fixture
def knowing(scheduler: ClusterScheduler) -> Ask:
    """Give what asks a member with its secret."""
    member = Member(address(scheduler), "", 0, "", 0.0)
    asking = Credentials(scheduler.settings.secret, "ann")
    return lambda method, *args: call(member, method, *args, credentials=asking, timeout=DEADLINE)


@pytest.mark.parametrize(("method", "args"), CHANGES)
def test_without_a_secret_locked_projects_stay_as_they_are(
    anybody: Ask, method: str, args: tuple[Any, ...]
) -> None:
    with pytest.raises(xmlrpc.client.Fault, match=r"locked.*secret_file") as refused:
        anybody(method, *args)
    assert refused.value.faultCode == 403
    assert anybody("list_batches")["total"] == 0


def test_without_a_secret_the_others_can_be_changed(anybody: Ask) -> None:
    assert anybody("newtask", {**TASK, "project": "open"}) is True
    plan = anybody("plan_operation", "stop", {"all": True})
    assert any("locked" in fault for fault in plan["faults"])
    assert anybody("plan_operation", "stop", {"names": ["open"]})["faults"] == []
    assert anybody("submit_operation", "stop", {"names": ["open"]}, {}, "root")["user"] == ""


@pytest.mark.parametrize(("method", "args"), CHANGES)
def test_who_knows_the_secret_may_change_locked_projects(
    knowing: Ask, method: str, args: tuple[Any, ...]
) -> None:
    assert knowing(method, *args)


def test_who_asks_is_who_proved_the_secret_whatever_the_call_says(
    knowing: Ask, scheduler: ClusterScheduler
) -> None:
    knowing("submit_operation", "stop", {"names": ["open"]}, {}, "root", "mine")
    knowing("cancel_batch", "mine", "root")
    with xmlrpc.client.ServerProxy(
        rpc_url(address(scheduler), scheduler.settings.secret, "bob")
    ) as stock:
        stock.submit_operation("run", {"names": ["locked"]}, {}, "root", "other")
    said = [event for event in knowing("list_events") if "batch" in event["data"]]
    assert {(event["who"], event["data"]["batch"]) for event in said} >= {
        ("ann", "mine"),
        ("bob", "other"),
    }


def test_quit_is_off_unless_asked_for(scheduler: ClusterScheduler, knowing: Ask) -> None:
    with pytest.raises(xmlrpc.client.Fault, match=r"SIGTERM.*allow_quit"):
        knowing("_quit")
    assert not scheduler._quit
    scheduler.settings = replace(scheduler.settings, allow_quit=True)
    assert knowing("_quit") is None
    assert scheduler._quit
