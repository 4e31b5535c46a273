"""Transactions without one of their steps or conditions, to show that each is needed."""

from collections.abc import Callable

from pyspider_zk.zookeeper.steps import Create, Delete, Step, Write
from tests.jobs.jobs_states import TREE, JobDecision


def spoilt(plan: JobDecision, broken: str) -> tuple[Step, ...]:
    """Return a transaction's steps without the one that is to be left out."""
    kind, _, fault = broken.partition(" without ")
    if not fault or kind not in (plan.kind, "any move"):
        return plan.steps
    return tuple(changed for step in plan.steps if (changed := SPOIL[fault](step)) is not None)


def without_version(step: Step) -> Step | None:
    if isinstance(step, Delete):
        return Delete(step.path, -1)
    if isinstance(step, Write):
        return Write(step.path, step.data, -1)
    return step


SPOIL: dict[str, Callable[[Step], Step | None]] = {
    "deleting": lambda step: None if isinstance(step, Delete) else step,
    "creating": lambda step: None if isinstance(step, Create) else step,
    "version": without_version,
    "claimant": lambda step: None if step.path.startswith("/c/") else step,
    "turn": lambda step: None if step.path.rpartition("/")[2].isdigit() else step,
    "batch": lambda step: None if step.path.startswith(TREE.batches) else step,
}
