"""One that was killed and is started again at once gets its own number."""

import itertools
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from pyspider_zk.cluster import coordinator
from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.records import Load, Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.limits import LONGEST_LEASE
from pyspider_zk.zookeeper import waiting
from tests.support.crew import MORTAL, Crew
from tests.support.processes import ROOT, program
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


def kill_one(crew: Crew, when: Callable[[], bool] = lambda: True, **times: float) -> dict:
    """Start a scheduler in a process of its own, wait until it is a member, and kill it.

    Args:
        when: the condition to wait for before it is killed.
        times: other times than the settings'.
    """
    command = [*program("far"), "member", json.dumps(asdict(replace(crew.settings, **times)))]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        print(file=process.stdin, flush=True)
        state = json.loads(process.stdout.readline())
        eventually(when)
        process.kill()
    return state


def numbers(crew: Crew) -> list[int | None]:
    """Return the number of each slot's owner, None for one that moves or has none."""
    return [row.owner.number if row.owner and not row.next else None for row in crew.table()]


def is_halved(crew: Crew) -> bool:
    """Return whether numbers 0 and 1 have half of the slots each."""
    return Counter(numbers(crew)) == {0: crew.settings.slots / 2, 1: crew.settings.slots / 2}


def epochs(crew: Crew, number: int) -> list[int]:
    return [row.epoch for row in crew.table() if row.owner and row.owner.number == number]


def number_of(state: dict) -> int:
    return int(state["member"].partition("-")[0])


def test_a_scheduler_that_was_killed_gets_its_number_back(crew: Crew):
    crew.start("near")
    before = kill_one(crew, session=4.0)

    again = crew.start("far")

    assert again.member.number == number_of(before) == 1


def test_one_that_was_killed_and_is_back_before_its_lease_ended_keeps_its_slots(crew: Crew):
    near = crew.start("near")
    kill_one(crew, when=lambda: is_halved(crew), lease=40.0, hang=40.0, session=4.0)
    before, raised = numbers(crew), [epoch + 1 for epoch in epochs(crew, 1)]

    crew.shared_by(near, crew.start("far"))

    assert numbers(crew) == before
    assert epochs(crew, 1) == raised


def test_one_that_was_killed_and_stays_away_is_replaced_when_its_lease_ended(crew: Crew):
    near = crew.start("near")
    kill_one(crew, when=lambda: is_halved(crew), **MORTAL)

    crew.shared_by(near)


def test_one_that_left_for_a_restart_keeps_its_slots_and_gets_them_at_once(crew: Crew):
    near, far = crew.start_and_share(2)
    before, raised = numbers(crew), [epoch + 1 for epoch in epochs(crew, 1)]

    far.stop(returns_within=LONGEST_LEASE)
    crew.shared_by(near, crew.start("scheduler1"))

    assert numbers(crew) == before
    assert epochs(crew, 1) == raised


def test_the_leader_may_leave_for_a_restart(crew: Crew):
    first, second = crew.start_and_share(2)
    before = numbers(crew)

    first.stop(returns_within=LONGEST_LEASE)
    crew.shared_by(second, crew.start("scheduler0"))

    assert numbers(crew) == before
    assert second.coordinator.leading


def test_all_may_leave_for_a_restart_at_once(crew: Crew):
    members = crew.start_and_share(3)
    before = numbers(crew)

    for member in members:
        member.stop(returns_within=LONGEST_LEASE)
    crew.start_and_share(3)

    assert numbers(crew) == before


def test_a_member_that_joins_meanwhile_gets_none_of_the_slots_that_wait(crew: Crew):
    members = crew.start_and_share(3)
    waiting = {slot for slot, number in enumerate(numbers(crew)) if number == 0}
    members[0].stop(returns_within=LONGEST_LEASE)
    members[1].stop(returns_within=LONGEST_LEASE)

    late = crew.start("scheduler1")  # so that somebody joins while those of number 0 wait
    eventually(lambda: len(late.open) + len(members[2].open) == 8)

    assert {slot for slot, number in enumerate(numbers(crew)) if number == 0} == waiting


def test_the_slots_of_one_that_left_for_a_restart_and_stays_away_move_in_the_end(crew: Crew):
    near, far = crew.start_and_share(2)

    far.stop(returns_within=1.0)

    crew.shared_by(near)


def test_the_lease_of_one_that_is_back_is_swept(crew: Crew, connection):
    near, far = crew.start_and_share(2)
    left = far.member
    far.stop(returns_within=LONGEST_LEASE)

    crew.shared_by(near, crew.start("scheduler1"))

    leases = f"{crew.settings.root}/leases"
    eventually(lambda: str(left) not in connection.children(leases), "a sweep")


def test_a_name_that_another_bears_is_waited_for_no_longer_than_a_session(crew: Crew):
    first = crew.start("twin")

    second = crew.start("twin", session=6.0)

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
