"""One that was killed and is started again at once gets its own number."""

import itertools
import json
import subprocess
from dataclasses import asdict

import pytest

from pyspider_zk.cluster import coordinator
from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.records import Load, Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper import waiting
from tests.support.crew import Crew
from tests.support.processes import ROOT, program

pytestmark = pytest.mark.zk


def kill_one(crew: Crew) -> dict:
    """Start a scheduler in a process of its own, wait until it is a member, and kill it."""
    command = [*program("far_member"), json.dumps(asdict(crew.settings))]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        print(file=process.stdin, flush=True)
        state = json.loads(process.stdout.readline())
        process.kill()
    return state


def number_of(state: dict) -> int:
    return int(state["member"].partition("-")[0])


def test_a_scheduler_that_was_killed_gets_its_number_back(crew: Crew):
    crew.start("near")
    before = kill_one(crew)

    again = crew.start("far")

    assert again.member.number == number_of(before) == 1


def test_a_name_that_another_bears_is_waited_for_no_longer_than_a_session(crew: Crew):
    first = crew.start("twin")

    second = crew.start("twin")

    assert [first.member.number, second.member.number] == [0, 1]


def test_a_scheduler_without_a_name_waits_for_nobody(crew: Crew):
    before = kill_one(crew)

    assert crew.start().member.number != number_of(before)


def test_a_zookeeper_that_stops_answering_while_a_member_starts_ends_nobody(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
):
    refusals = iter([Unavailable("the server that was reached has gone")] * 2)

    def founded(*cluster: object) -> None:
        for refusal in refusals:
            raise refusal
        ensure_cluster(*cluster)

    monkeypatch.setattr(coordinator, "ensure_cluster", founded)

    crew.shared_by(crew.start())


def test_a_zookeeper_that_stops_answering_while_a_member_starts_is_waited_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    seconds, answers = itertools.count(), itertools.chain([False] * 20, itertools.repeat(True))

    def founded(*_: object) -> None:
        if not next(answers):
            raise Unavailable("ZooKeeper does not answer")

    monkeypatch.setattr(coordinator, "ensure_cluster", founded)
    monkeypatch.setattr(waiting, "RETRY_PAUSE", 0.0)
    member = Coordinator(settings, Member("", "", 0, "", 0.0), dict, Load, lambda: next(seconds))

    member.start()
    member.stop()
