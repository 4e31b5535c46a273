"""Several movers empty one inbox, and crash at any point: nothing is lost or doubled."""

import random
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.redis_inbox import Forwarding, RedisInbox

pytestmark = pytest.mark.redis

NEW = QueueKind.NEWTASK
SLOTS = 8
PROJECTS = ["a", "b", "c"]


@dataclass(frozen=True)
class Push:
    """A stock component publishes tasks of some projects; equal messages are wanted."""

    projects: tuple[str, ...]
    number: int

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return [{"project": name, "taskid": f"{name}{self.number}"} for name in self.projects]

    @property
    def raw(self) -> bytes:
        return msgpack.packb(self.tasks)


@dataclass(frozen=True)
class InboxLook:
    """A mover reads the inbox, forgetting what it read before: that is a crash too."""

    mover: int


@dataclass(frozen=True)
class Perform:
    """A mover gets some of its moves through."""

    mover: int
    count: int


@dataclass
class InboxWorld:
    """An inbox, its movers, and what has been put in."""

    backend: Any
    inbox: RedisInbox
    plans: dict[int, list[Forwarding]] = field(default_factory=dict)
    pushed: list[dict[str, Any]] = field(default_factory=list)

    def do(self, step: Push | InboxLook | Perform) -> None:
        if isinstance(step, Push):
            self.backend.put_inbox(NEW, step.raw)
            self.pushed += step.tasks
        elif isinstance(step, InboxLook):
            self.plans[step.mover] = self.inbox.plan(5)
        else:
            plan = self.plans.get(step.mover, [])
            self.inbox.perform(plan[: step.count])
            self.plans[step.mover] = plan[step.count :]


MOVERS = st.integers(0, 2)
STEPS = st.lists(
    st.builds(
        Push,
        st.lists(st.sampled_from(PROJECTS), min_size=1, max_size=3).map(tuple),
        st.integers(0, 2),
    )
    | st.builds(InboxLook, MOVERS)
    | st.builds(Perform, MOVERS, st.integers(1, 5)),
    max_size=30,
)


def by_slot(tasks: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    slots: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for task in tasks:
        slots[slot_of(task["project"], SLOTS)].append(task)
    return dict(slots)


def read_all(queues: Queues) -> list[dict[str, Any]]:
    queues.slot_queues.take(range(SLOTS))
    return [delivery.body for delivery in queues.slot_queues.read(NEW, 100_000)]


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
def test_any_interleaving_of_movers_and_crashes_moves_each_message_once(
    redis_backend: Any, steps: list[Push | InboxLook | Perform]
) -> None:
    redis_backend.client.flushdb()
    queues = redis_backend.process(slots=SLOTS)
    world = InboxWorld(redis_backend, queues.inbox)
    for step in steps:
        world.do(step)
    while queues.inbox.forward(7):
        pass
    assert by_slot(read_all(queues)) == by_slot(world.pushed)
    queues.close()


MOVER = """
import os, signal, sys
import redis
from pyspider_zk.queues.connect import connect

left = int(sys.argv[3])
send = redis.Connection.send_packed_command

def send_and_die(*arguments, **options):
    global left
    send(*arguments, **options)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

redis.Connection.send_packed_command = send_and_die
inbox = connect(sys.argv[1], 0, int(sys.argv[2])).inbox
print("ready", flush=True)
sys.stdin.read()
while True:
    inbox.forward(17)
"""


@pytest.mark.parametrize("seed", range(3))
def test_movers_killed_at_work_lose_and_double_nothing(redis_backend: Any, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the seed is in the test's name
    sent = [Push((chance.choice(PROJECTS), chance.choice(PROJECTS)), n) for n in range(3000)]
    for push in sent:
        redis_backend.put_inbox(NEW, push.raw)
    queues = redis_backend.process(slots=SLOTS)
    with ExitStack() as stack:
        # Each command moves 17 messages at most, so all die before they have moved all.
        movers = [start_mover(redis_backend.url, chance.randint(9, 44), stack) for _ in range(4)]
        for mover in movers:
            assert mover.stdout.readline() == b"ready\n"
        for mover in movers:
            mover.stdin.close()
        assert [mover.wait(60) for mover in movers] == [-signal.SIGKILL] * 4
    assert 0 < queues.inbox.lengths()[NEW] < len(sent)
    while queues.inbox.forward(1000):
        pass
    expected = by_slot([task for push in sent for task in push.tasks])
    assert by_slot(read_all(queues)) == expected


def start_mover(url: str, commands: int, stack: ExitStack) -> subprocess.Popen[bytes]:
    """Start one that kills itself when it has sent so many commands."""
    command = [sys.executable, "-c", MOVER, url, str(SLOTS), str(commands)]
    pipe = subprocess.PIPE
    mover = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe))
    stack.callback(mover.kill)
    return mover
