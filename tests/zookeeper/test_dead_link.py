"""A link to ZooKeeper that goes silent while the client keeps sending, with real packets dropped.

kazoo believes in such a link for long: everything that it sends puts off the next ping. The lease
does not depend on what kazoo believes.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.controller import WorkerController
from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.zookeeper.waiting import boottime
from tests.support.crew import Crew, OpenTimes
from tests.support.needed import skip_without_needed
from tests.support.network import HUB_ADDRESS, Network, check_permission
from tests.support.processes import ROOT, program
from tests.support.waiting import eventually
from tests.support.zk_faults import together

pytestmark = [pytest.mark.zk, pytest.mark.slow]

SILENCE = """
table inet silence {
    chain incoming { type filter hook input priority 0; drop; }
    chain outgoing { type filter hook output priority 0; drop; }
}
"""


class FarProcess:
    """A process in another network, whose link can be made silent."""

    def __init__(self, network: Network, name: str, settings: Settings) -> None:
        self._inside = network.inside("far")
        command = [*self._inside, *program("far"), name, json.dumps(asdict(settings))]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self) -> dict:
        assert self._process.stdin
        assert self._process.stdout
        print(file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def silence(self) -> None:
        self._nft(SILENCE)

    def heal(self) -> None:
        self._nft("delete table inet silence")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _nft(self, rules: str) -> None:
        subprocess.run([*self._inside, "nft", rules], check=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """Give a network of our own."""
    with skip_without_needed():
        check_permission()
    with Network(["far"]) as network:
        yield network


@pytest.fixture
def settings(
    network: Network,  # noqa: ARG001 - the server starts inside it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    zk_root: str,
) -> Iterator[Settings]:
    """Give the settings of a cluster whose ZooKeeper listens in that network."""
    monkeypatch.setattr("pyspider_zk.local.services.LOOPBACK", HUB_ADDRESS)
    with ZooKeeperServer(tmp_path) as server:
        yield Settings(
            hosts=server.address, root=zk_root, slots=12, renewal=0.2, lease=1.0, session=20.0
        )


@pytest.fixture
def far(network: Network, settings: Settings) -> Iterator[FarProcess]:
    """Give a member at the other end of a link of its own."""
    far = FarProcess(network, "member", settings)
    yield far
    far.kill()


@pytest.fixture
def holder(network: Network, settings: Settings) -> Iterator[FarProcess]:
    """Give a participant with a number and a lock at the other end of a link of its own."""
    far = FarProcess(network, "holder", replace(settings, session=6.0))
    yield far
    far.kill()


def test_a_dead_link_that_kazoo_believes_in_costs_the_member_its_slots(crew: Crew, far: FarProcess):
    near = crew.start("near")
    times = OpenTimes(near)
    times.start()
    eventually(lambda: len(near.open) == len(far.ask()["open"]) == 6, "sharing")
    before = dict(far.ask()["open"])

    far.silence()
    eventually(lambda: not far.ask()["open"], "the fence shuts")
    believes = far.ask()["connected"]
    crew.shared_by(near)

    far.heal()
    eventually(lambda: len(near.open) == len(far.ask()["open"]) == 6, "sharing again")
    times.stop()
    after = far.ask()

    assert believes
    assert all(epoch > before.get(slot, 0) for slot, epoch in after["open"])
    assert overlaps(times.as_list(), after["times"]) == []


def test_number_and_lock_are_given_up_behind_a_dead_link_before_others_can_have_them(
    settings: Settings, holder: FarProcess
):
    eventually(lambda: holder.ask()["lock"], "the lock is held")
    got: dict[str, float] = {}

    def take_lock(me: WorkerController) -> None:
        with me.lock("one", timeout=60):
            got["lock"] = boottime()

    def take_number() -> None:
        with WorkerController(settings, "work", name="a") as another:
            got["number"] = boottime()
            assert another.number == 0

    with WorkerController(settings, "work", name="b") as near:
        holder.silence()
        together(partial(take_lock, near), take_number)
    last = holder.ask()

    assert last["lost"]
    assert last["lock"] < got["lock"]
    assert last["number"] < got["number"]


def overlaps(near: list, far: list) -> list:
    """Return the slots that both saw open to themselves at one time."""
    return [
        (one[0], one, other)
        for one in near
        for other in far
        if one[0] == other[0] and one[2] < other[3] and other[2] < one[3]
    ]
