"""Commands that tell the whole cluster how its slots are assigned."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.projects.slots import slot_of
from tests.cli.conftest import Run, ended, hosts
from tests.support.connected import connected
from tests.support.live_cluster import LiveCluster, living

pytestmark = pytest.mark.zk

Ask = Callable[..., str]


@pytest.fixture
def ask(run: Run, cluster: Settings) -> Ask:
    """Give the function that runs a command on the cluster, and returns what it prints."""

    def asked(*words: object, ends_with: int = 0) -> str:
        result = run("--zookeeper", hosts(cluster), *words)
        assert result.exit_code == ends_with, result.output
        return str(result.output)

    return asked


@pytest.fixture
def status(ask: Ask) -> Callable[[], dict[str, Any]]:
    return lambda: json.loads(ask("status", "--json"))


def test_settings_are_shown_set_and_unset(ask: Ask) -> None:
    assert "lease = as each scheduler is configured" in ask("settings", "list")

    assert "lease = 6.5\n" in ask("settings", "set", "lease", "6.5")
    assert "restart_delay = 90\n" in ask("settings", "set", "restart_delay", 90)
    assert "weigh_by = projects\n" in ask("settings", "set", "weigh_by", "projects")
    ask("settings", "unset", "lease")

    found = json.loads(ask("settings", "list", "--json"))
    assert (found["lease"], found["restart_delay"], found["weigh_by"]) == (None, 90, "projects")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lease", "soon", "lease: 'soon' is no number"),
        ("lease", "0.1", "lease: 0.1 must be from 0.5 to 600"),
        ("lease", "nan", "lease: nan must be"),
        ("moves", "2.5", "moves"),
        ("weigh_by", "size", "weigh_by"),
        ("leese", "4", "did you mean lease?"),
        ("pins", "4", "there is no cluster-wide setting 'pins'"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason(
    ask: Ask, name: str, value: str, words: str
) -> None:
    assert words in ask("settings", "set", name, value, ends_with=2)


def test_an_upgrade_without_anything_to_raise_says_so(
    ask: Ask, status: Callable[[], dict[str, Any]]
) -> None:
    assert "the cluster goes by protocol 1 already" in ask("upgrade")
    assert (status()["protocol"], status()["held_back_by"]) == (1, [])


def test_damaged_settings_are_told_with_the_remedy(ask: Ask, cluster: Settings) -> None:
    ask("settings", "list")
    with connected(cluster) as connection:
        connection.set(Tree(cluster.root).settings, b"junk")

    assert "`pyspider-zk settings reset`" in ask("settings", "list", ends_with=2)
    ask("settings", "reset")

    assert "moves = 64" in ask("settings", "list")


def test_maintenance_is_shown_until_it_is_over(ask: Ask, status) -> None:
    assert "maintenance is hold" in ask("maintenance", "on", "--hold")
    assert status()["settings"]["maintenance"] == "hold"
    assert "no slot moves, not even those of dead members" in ask("status")

    ask("maintenance", "off")

    assert "maintenance" not in ask("status")


def test_hold_without_on_is_no_command(ask: Ask) -> None:
    assert "--hold goes with" in ask("maintenance", "off", "--hold", ends_with=2)


def test_who_is_evicted_is_shown_until_it_is_admitted(ask: Ask, status) -> None:
    assert "evicted: 0" in ask("evict", 0)
    assert "evicted" in ask("status")

    assert "evicted: nobody" in ask("evict", 0, "--undo")
    assert status()["settings"]["evicted"] == []


def test_a_project_is_pinned_by_its_slot(ask: Ask, cluster: Settings, status) -> None:
    slot = slot_of("news", cluster.slots)

    assert f"slot {slot} is pinned to member 3" in ask("pin", "news", 3)
    ask("pin", 5, 0)
    assert status()["settings"]["pins"] == {str(slot): 3, "5": 0}
    assert "(2 pinned)" in ask("status")

    ask("unpin", slot)
    ask("unpin", 5)

    assert status()["settings"]["pins"] == {}


def test_a_number_that_is_also_a_project_elsewhere_pins_nothing(
    run: Run, live: LiveCluster, eventually: Callable[..., None]
) -> None:
    def told(*words: object, ends_with: int = 0) -> str:
        result = run("--zookeeper", hosts(live.settings), *words)
        assert result.exit_code == ends_with, result.output
        return str(result.output)

    slot = slot_of("12", live.settings.slots)
    assert slot != 12
    live.project("12")
    eventually(lambda: '"name": "12"' in told("projects", "--json"))
    why = f"12 is also a project, in slot {slot}: say {slot} if that is meant, and 012 for slot 12"
    assert why in told("pin", 12, 0, ends_with=2)
    assert why in told("unpin", 12, ends_with=2)
    assert "slot 12 is pinned to member 0" in told("pin", "012", 0)
    assert f"slot {slot} is pinned to member 0" in told("pin", slot, 0)
    assert "slot 13 is pinned" in told("pin", 13, 0)


@pytest.mark.parametrize("what", ["256", "99999999999999999999", "no project", ""])
def test_what_is_neither_slot_nor_project_cannot_be_pinned(ask: Ask, what: str) -> None:
    ask("pin", what, 0, ends_with=2)


def test_one_that_does_not_answer_cannot_be_asked_to_drain(ask: Ask) -> None:
    assert "`pyspider-zk evict 0` moves its slots" in ask("drain", 0, ends_with=3)


def test_nobody_is_asked_to_drain_who_does_not_run(ask: Ask) -> None:
    assert "no member 7 runs" in ask("drain", 7, ends_with=2)


def test_who_is_asked_to_drain_drains_though_the_event_log_is_away(
    run: Run, live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = EventLog.append

    def refuse(log: EventLog, event: Event) -> int:
        if event.kind == EventKind.DRAIN:
            raise Unavailable("ZooKeeper is at an election")
        return append(log, event)

    monkeypatch.setattr(EventLog, "append", refuse)

    result = ended(run("--zookeeper", hosts(live.settings), "drain", 0))

    assert result.stdout == "member 0 drains\n"
    assert "it is not in the event log: ZooKeeper is at an election\n" in result.stderr


def test_rebalance_evens_out_once_and_drain_takes_it_back(
    run: Run, live: LiveCluster, eventually: Callable[..., None]
) -> None:
    def told(*words: object) -> str:
        result = ended(run("--zookeeper", hosts(live.settings), *words))
        return str(result.stdout)

    def counts() -> list[int]:
        return [each["slots"] for each in json.loads(told("status", "--json"))["members"]]

    slots = live.settings.slots
    told("maintenance", "on")
    with live.scheduler():
        eventually(lambda: len(counts()) == 2)
        plan = told("rebalance", "--dry-run")
        assert plan.startswith("0 -> 1: ")
        assert counts() == [slots, 0]

        assert told("rebalance") == plan
        assert min(counts()) > 0.4 * slots
        assert json.loads(told("settings", "list", "--json"))["maintenance"] == "on"
        assert "nothing would move" in told("rebalance", "--dry-run")

        told("drain", 1)
        eventually(lambda: counts() == [slots])

    events = told("events", "--limit", 100)
    who = f"(ann@{gethostname()})"
    assert f"maintenance: only the slots of members that drain or are gone move {who}" in events
    assert f"was asked to drain {who}" in events


def test_who_drains_on_hold_ends_at_once_and_keeps_its_slots(
    run: Run,
    tmp_path: Path,
    cluster_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_SECRET", cluster_settings.secret)
    where = ("--zookeeper", hosts(cluster_settings))

    def told(*words: object) -> str:
        result = ended(run(*where, *words))
        return str(result.output)

    def members() -> list[tuple[int, int]]:
        found = json.loads(told("status", "--json"))["members"]
        return [(each["number"], each["slots"]) for each in found]

    long = LiveCluster(tmp_path, replace(cluster_settings, slots=8, drain=600.0))
    with living(long, eventually), long.scheduler() as second:
        eventually(lambda: len(members()) == 2 and second.fence.held)
        eventually(lambda: all(row.next is None for row in second._cluster().assignment.slots))
        before = members()
        told("maintenance", "on", "--hold")
        told("settings", "set", "restart_delay", 1)
        eventually(lambda: all(each.fence.ownership.restart_delay for each in long.running))

        assert "on hold: its slots stay, and wait for its number" in told("drain", 1)

        eventually(lambda: members() == before[:1])
        assert "maintenance is on hold: the slots stay" in caplog.text
        told("maintenance", "off")
        eventually(lambda: members() == [(0, 8)])
