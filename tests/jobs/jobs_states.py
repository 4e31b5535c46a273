"""The states of a small job queue, as values, and a ZooKeeper that does transactions.

Everything that happens to jobs happens in lists of steps that the real functions of ``core/``
return. Time stands still; pauses after failures are none. A job's bytes are the real ones.
"""

from functools import cache
from typing import NamedTuple

from pyspider_zk.jobs.model import (
    NO_EPOCH,
    BatchRecord,
    Job,
    JobName,
    JobRules,
    JobState,
    name_prefix,
)
from pyspider_zk.jobs.transactions import JobTree
from pyspider_zk.zookeeper.steps import Check, Create, Delete, Step, Write

NOW = 0.0
TREE = JobTree("/q")
BATCH = "b"
RULES = JobRules(tries=2, pauses=(0.0,), deaths=9)

Node = tuple[str, bytes, int]  # path, data, version
Seen = tuple[JobName, bytes, int]  # a job as it was read


class HeldClaim(NamedTuple):
    """A claim in a worker's hands; ``leaving``: how it parts with it, empty while it acts."""

    name: JobName
    data: bytes
    version: int
    leaving: str = ""


class JobDecision(NamedTuple):
    """A transaction that was decided on; ``sent``: it was done, the reply is under way."""

    kind: str
    name: JobName | None
    steps: tuple[Step, ...]
    after: bytes = b""
    hold: HeldClaim | None = None
    sent: bool = False


class Worker(NamedTuple):
    """A process that claims jobs, in one of its sessions.

    ``looked``: a running job that it read, before it looks who stands. ``stood``: who stood, if it
    looked at that first, which is wrong. ``hangs``: its loop does nothing, its session lives on.
    """

    path: str
    holds: tuple[HeldClaim, ...] = ()
    plan: JobDecision | None = None
    looked: Seen | None = None
    stood: tuple[str, ...] | None = None
    hangs: bool = False


class Asker(NamedTuple):
    """A process that puts the batch, or cancels it.

    ``stage``: how far cancelling has come; ``todo``: jobs that it listed.
    """

    wants: str
    stage: str = "begin"
    todo: tuple[JobName, ...] = ()
    plan: JobDecision | None = None


class JobsState(NamedTuple):
    """The whole world.

    ``owner``: whose slot it is, by its place among the workers; -1: everybody may take
    everything. ``epoch``: of the slot. ``lives``: sessions so far.
    """

    jobs: int
    nodes: tuple[Node, ...]
    sequence: int
    workers: tuple[Worker | None, ...]
    askers: tuple[Asker, ...]
    owner: int
    faults: int
    fails: int
    reports: int
    lives: int
    is_cancelled: bool = False
    epoch: int = NO_EPOCH


def birth(
    jobs: int,
    workers: int,
    asks: tuple[str, ...] = ("put",),
    slots: bool = True,
    faults: int = 1,
    fails: int = 0,
    reports: int = 0,
) -> JobsState:
    """Return a world in which nothing was put yet."""
    crew = tuple(Worker(f"/c/w{number}") for number in range(workers))
    return JobsState(
        jobs=jobs,
        nodes=tuple((worker.path, b"", 0) for worker in crew),
        sequence=0,
        workers=crew,
        askers=tuple(Asker(want) for want in asks),
        owner=0 if slots else -1,
        faults=faults,
        fails=fails,
        reports=reports,
        lives=workers,
    )


@cache
def entries(jobs: int) -> tuple[tuple[str, bytes], ...]:
    return tuple((name_prefix(500, BATCH, f"p{i}"), Job({}, NOW).encode()) for i in range(jobs))


@cache
def job_of(data: bytes) -> Job:
    return Job.decode(data)


@cache
def record_of(data: bytes) -> BatchRecord:
    return BatchRecord.decode(data)


@cache
def name_of(path: str) -> JobName:
    return JobName.parse(path.rpartition("/")[2])


# --- reading ------------------------------------------------------------------------------------


def find(state: JobsState, path: str) -> Node | None:
    return next((node for node in state.nodes if node[0] == path), None)


def below(state: JobsState, place: JobState) -> list[Seen]:
    prefix = TREE.place(place) + "/"
    return [
        (name_of(path), data, version)
        for path, data, version in state.nodes
        if path.startswith(prefix) and "/" not in path.removeprefix(prefix)
    ]


def batch_of(state: JobsState) -> tuple[BatchRecord, int] | None:
    node = find(state, TREE.batch(BATCH))
    return (record_of(node[1]), node[2]) if node else None


def standing(state: JobsState) -> tuple[str, ...]:
    return tuple(path for path, _, _ in state.nodes if path.startswith("/c/"))


# --- ZooKeeper ----------------------------------------------------------------------------------


def done(state: JobsState, steps: tuple[Step, ...]) -> JobsState | None:
    """Do all steps or none; None if they are refused."""
    nodes = {path: (data, version) for path, data, version in state.nodes}
    sequence = state.sequence
    for step in steps:
        path, found = step.path, nodes.get(step.path)
        if isinstance(step, Create):
            if step.sequence:
                path, sequence = f"{path}{sequence:010d}", sequence + 1
            if path in nodes:
                return None
            nodes[path] = (step.data, 0)
        elif found is None or step.version not in (-1, found[1]):
            return None
        elif isinstance(step, Delete):
            if any(other.startswith(f"{path}/") for other in nodes):
                return None
            del nodes[path]
        elif isinstance(step, Write):
            nodes[path] = (step.data, found[1] + 1)
        else:
            assert isinstance(step, Check)
    after = tuple(sorted((path, *value) for path, value in nodes.items()))
    return state._replace(nodes=after, sequence=sequence)


def without_node(state: JobsState, path: str) -> JobsState:
    return state._replace(nodes=tuple(node for node in state.nodes if node[0] != path))


def with_node(state: JobsState, path: str) -> JobsState:
    return state._replace(nodes=tuple(sorted([*state.nodes, (path, b"", 0)])))


def put_in(items: tuple, place: int, item: object) -> tuple:
    return (*items[:place], item, *items[place + 1 :])
