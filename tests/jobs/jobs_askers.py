"""What those do who put a batch or cancel it, one read or transaction after the other."""

from collections.abc import Callable, Iterator

from pyspider_zk.jobs import transactions
from pyspider_zk.jobs.model import BatchRecord, Claim, Found, Job, JobName, JobState
from tests.jobs.jobs_broken import spoilt
from tests.jobs.jobs_states import (
    BATCH,
    NOW,
    TREE,
    Asker,
    JobDecision,
    JobsState,
    batch_of,
    below,
    done,
    entries,
    find,
    job_of,
    put_in,
)

Next = tuple[str, JobsState]


def asker_steps(state: JobsState, place: int, asker: Asker, broken: str) -> Iterator[Next]:
    what = f"{asker.wants} {place}"
    if asker.plan is None:
        after = PUTTING if asker.wants == "put" else CANCELLING[broken == "pending first"]
        if asker.stage in after:
            yield f"{what}: {asker.stage}", after[asker.stage](state, place, asker)
    elif asker.plan.sent:
        ready = asker._replace(plan=None, todo=asker.todo[1:])
        yield f"{what}: the reply comes", set_asker(state, place, ready)
        lost = Asker(asker.wants)
        yield f"{what}: the reply is lost", set_asker(state, place, lost)
    else:
        yield f"{what}: {asker.plan.kind}", carry_out(state, place, asker, broken)


def set_asker(state: JobsState, place: int, asker: Asker) -> JobsState:
    return state._replace(askers=put_in(state.askers, place, asker))


def carry_out(state: JobsState, place: int, asker: Asker, broken: str) -> JobsState:
    assert asker.plan is not None
    after = done(state, spoilt(asker.plan, broken))
    if after is None:  # look again, unless who moved a pending job will find the batch's mark
        todo = asker.todo[1:] if asker.plan.kind == "end" else asker.todo
        return set_asker(state, place, asker._replace(plan=None, todo=todo))
    return set_asker(after, place, asker._replace(plan=asker.plan._replace(sent=True)))


def put_more(state: JobsState, place: int, asker: Asker) -> JobsState:
    fresh = BatchRecord({}, NOW, state.jobs)
    moves = transactions.put_steps(TREE, BATCH, fresh, batch_of(state), entries(state.jobs), room=0)
    if not moves:
        return set_asker(state, place, asker._replace(stage="done"))
    plan = JobDecision("put", None, tuple(moves))
    return set_asker(state, place, asker._replace(plan=plan))


def mark_batch(state: JobsState, place: int, asker: Asker) -> JobsState:
    batch = batch_of(state)
    if batch is None:
        return state
    if batch[0].cancelled:
        return set_asker(state, place, asker._replace(stage="list first"))
    plan = JobDecision("mark", None, tuple(transactions.cancel_record_steps(TREE, BATCH, *batch)))
    return set_asker(state, place, asker._replace(plan=plan))


def lister(where: JobState, stage: str) -> Callable[[JobsState, int, Asker], JobsState]:
    def list_jobs(state: JobsState, place: int, asker: Asker) -> JobsState:
        todo = tuple(name for name, _, _ in below(state, where))
        return set_asker(state, place, asker._replace(stage=stage, todo=todo))

    return list_jobs


def ender(where: JobState, stage: str) -> Callable[[JobsState, int, Asker], JobsState]:
    """Return what ends, or marks, the next of the jobs that were listed in one place."""

    def end_next(state: JobsState, place: int, asker: Asker) -> JobsState:
        if not asker.todo:
            return go_on(state, place, asker, stage)
        found = find(state, TREE.job(where, asker.todo[0]))
        if found is None or job_of(found[1]).cancelled:
            return set_asker(state, place, asker._replace(todo=asker.todo[1:]))
        plan = end_plan(where, asker.todo[0], job_of(found[1]), found[2])
        return set_asker(state, place, asker._replace(plan=plan))

    return end_next


def go_on(state: JobsState, place: int, asker: Asker, stage: str) -> JobsState:
    state = set_asker(state, place, asker._replace(stage=stage))
    return state._replace(is_cancelled=True) if stage == "done" else state


def end_plan(where: JobState, name: JobName, job: Job, version: int) -> JobDecision:
    if where is JobState.RUNNING:
        moves = transactions.cancel_running_steps(TREE, Claim(name, job, version))
        return JobDecision("mark", name, tuple(moves))
    moves = transactions.cancel_pending_steps(TREE, Found(name, job, version), NOW)
    return JobDecision("end", name, tuple(moves))


PUTTING = {"begin": put_more}
FIRST, THEN = JobState.RUNNING, JobState.PENDING
CANCELLING = {
    reverse: {
        "begin": mark_batch,
        "list first": lister(order[0], "first"),
        "first": ender(order[0], "list second"),
        "list second": lister(order[1], "second"),
        "second": ender(order[1], "done"),
    }
    for reverse, order in ((False, (FIRST, THEN)), (True, (THEN, FIRST)))
}
