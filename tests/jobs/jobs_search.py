"""A search through all states of a small job queue, and what must hold in each."""

from collections import Counter
from collections.abc import Iterator

from pyspider_zk.jobs.model import JobState, Outcome
from tests.jobs.jobs_askers import asker_steps
from tests.jobs.jobs_states import (
    Asker,
    HeldClaim,
    JobsState,
    Worker,
    batch_of,
    below,
    job_of,
    standing,
    with_node,
    without_node,
)
from tests.jobs.jobs_world import (
    begin,
    judge,
    move,
    orphans,
    plan_steps,
    plan_with,
    rejoin,
    seize,
    set_worker,
    slot_epoch_of,
    steps,
    want,
    what_next,
)
from tests.support.exploration import Recovery, Violated

ROUNDS = 8  # of everybody, within which all jobs must be done once no fault happens any more


Trail = tuple[str, "Trail"] | None


def _unrolled(trail: Trail) -> list[str]:
    way: list[str] = []
    while trail is not None:
        step, trail = trail
        way.append(step)
    return way[::-1]


def explore(start: JobsState, broken: str = "", depth: int = 999) -> Iterator[JobsState]:
    """Yield every state that can be reached within so many steps, once, the nearest first.

    Raises:
        Violated: by a state or a step that breaks a rule.
    """
    seen, layer = {start}, [(start, None)]
    while layer and depth:
        depth -= 1
        coming: list[tuple[JobsState, Trail]] = []
        for state, trail in layer:
            yield state
            for label, after in steps(state, broken):
                way = (label, trail)
                if fault := fault_between(state, after):  # also on another way to a known state
                    raise Violated(fault, _unrolled(way))
                if after in seen:
                    continue
                seen.add(after)
                if fault := fault_of(after):
                    raise Violated(fault, _unrolled(way))
                coming.append((after, way))
        layer = coming


def fault_of(state: JobsState) -> str | None:
    """Tell what is wrong in a state."""
    return fault_of_places(state) or fault_of_holds(state) or fault_of_cancelling(state)


def fault_of_places(state: JobsState) -> str | None:
    """Tell of a job in two places, lost, or put twice."""
    names = [name for place in JobState for name, _, _ in below(state, place)]
    twice = [str(name) for name, count in Counter(names).items() if count > 1]
    if twice:
        return f"{twice} are in two places"
    projects = Counter(name.project for name in names)
    if max(projects.values(), default=1) > 1:
        return f"a job was put twice: {projects}"
    batch = batch_of(state)
    put = batch[0].put if batch else 0
    return f"{put} jobs were put, {len(names)} are there" if len(names) != put else None


def fault_of_holds(state: JobsState) -> str | None:
    """Tell of somebody who may act on a job that is not its own, or twice on one."""
    for place, worker in enumerate(state.workers):
        if worker is None:
            continue
        if len({(hold.name, job_of(hold.data).claims) for hold in worker.holds}) < len(
            worker.holds
        ):
            return f"{worker.path} holds a job twice: {worker.holds}"
        for hold in worker.holds:
            if may_act(state, place, worker, hold) and not is_running_by(state, worker, hold):
                return f"{worker.path} may act on {hold.name}, which is not its own"
    return None


def may_act(state: JobsState, place: int, worker: Worker, hold: HeldClaim) -> bool:
    """Return if the fence, or without slots the claimant's znode, lets a claim have effects."""
    let = state.owner == place or (state.owner == -1 and worker.path in standing(state))
    return let and not worker.hangs and not hold.leaving


def is_running_by(state: JobsState, worker: Worker, hold: HeldClaim) -> bool:
    running = [job_of(data) for name, data, _ in below(state, JobState.RUNNING) if name == hold[0]]
    claims = job_of(hold.data).claims
    return [(job.claimant, job.claims) for job in running] == [(worker.path, claims)]


def fault_of_cancelling(state: JobsState) -> str | None:
    """Tell of a job that escaped a cancellation."""
    if not state.is_cancelled:
        return None
    if below(state, JobState.PENDING):
        return "a job of a cancelled batch is pending"
    unmarked = [n for n, data, _ in below(state, JobState.RUNNING) if not job_of(data).cancelled]
    return f"{unmarked} run on, for their batch's cancellation missed them" if unmarked else None


def fault_between(before: JobsState, after: JobsState) -> str | None:
    """Tell what is wrong with a step: a job that ended stays so; only who stands begins one."""
    if before.nodes is after.nodes:
        return None
    ended = set(below(before, JobState.DONE)) - set(below(after, JobState.DONE))
    if ended:
        return f"{ended} had ended"
    return fault_of_the_gone(before, after) or fault_of_forgetting(before, after)


def fault_of_the_gone(before: JobsState, after: JobsState) -> str | None:
    """Tell of a job that begins to run, goes on or is done in the hands of one that is gone."""
    told = {name: job_of(data).progress for name, data, _ in below(before, JobState.RUNNING)}
    for name, data, _ in below(after, JobState.RUNNING):
        job = job_of(data)
        if job.claimant not in standing(after) and told.get(name) != job.progress:
            return f"{name} begins or goes on in the hands of one that is gone"
    known = below(before, JobState.DONE)
    for seen in below(after, JobState.DONE):
        job = job_of(seen[1])
        is_news = seen not in known and job.outcome is Outcome.DONE
        if is_news and job.claimant not in standing(after):
            return f"{seen[0]} is done by one that is gone"
    return None


def fault_of_forgetting(before: JobsState, after: JobsState) -> str | None:
    """Tell of a job that was told to stop, or had made progress, and does not know it any more."""
    running = {name: job_of(data) for name, data, _ in below(before, JobState.RUNNING)}
    for place in JobState:
        for name, data, _ in below(after, place):
            job, was = job_of(data), running.get(name)
            if was and was.cancelled and not job.cancelled:
                return f"{name} has forgotten that it was cancelled"
            if was and was.progress and not job.progress:
                return f"{name} has forgotten its progress"
    return None


def recovery() -> Recovery[JobsState]:
    """Look whether all jobs end once no fault happens any more."""
    return Recovery(calm, a_round, what_is_left, ROUNDS)


def what_is_left(state: JobsState) -> str | None:
    """Tell whether anything that was asked for is neither done nor cancelled."""
    return None if is_ended(state) else "not all is done"


def is_ended(state: JobsState) -> bool:
    """Return whether all that was asked for is done or cancelled."""
    batch = batch_of(state)
    names = below(state, JobState.DONE)
    return batch is not None and batch[0].settled and len(names) == batch[0].put


def calm(state: JobsState) -> JobsState:
    """Let no fault happen any more: who asked asks again, and somebody is there to work."""
    state = state._replace(faults=0, fails=0, reports=0)
    if not any(asker.wants == "put" for asker in state.askers):
        state = state._replace(askers=(*state.askers, Asker("put")))
    if all(worker is None or worker.hangs for worker in state.workers):
        path = f"/c/w{state.lives}"
        workers = (*state.workers, Worker(path))
        state = with_node(state._replace(lives=state.lives + 1, workers=workers), path)
    if state.owner >= 0 and not is_at_work(state, state.owner):
        heir = next(p for p, _ in enumerate(state.workers) if is_at_work(state, p))
        state = seize(state, heir) if state.workers[state.owner] else move(state, heir)
    return state


def is_at_work(state: JobsState, place: int) -> bool:
    worker = state.workers[place]
    return worker is not None and not worker.hangs


def a_round(state: JobsState) -> JobsState:
    """Let everybody take all their steps, undisturbed."""
    for path in orphans(state):
        state = without_node(state, path)
    for place in range(len(state.askers)):
        state = ask(state, place)
    for place in range(len(state.workers)):
        if is_at_work(state, place):
            state = work(state, place)
    return state


def ask(state: JobsState, place: int) -> JobsState:
    while True:
        after = next(
            (after for _, after in asker_steps(state, place, state.askers[place], "")), state
        )
        if after == state:
            return state
        state = after


def work(state: JobsState, place: int) -> JobsState:
    worker = state.workers[place]
    assert worker is not None
    if worker.path not in standing(state):
        state = rejoin(state, place)
    state = settle(state, place)
    for seen in below(state, JobState.RUNNING):
        worker = state.workers[place]
        assert worker is not None
        state = settle(set_worker(state, place, worker._replace(looked=seen)), place)
    if slot_epoch_of(state, place):
        for seen in below(state, JobState.PENDING):
            worker = state.workers[place]
            assert worker is not None
            state = settle(want(state, place, worker, seen), place)
    return part_with_all(state, place)


def settle(state: JobsState, place: int) -> JobsState:
    """End what a worker has begun."""
    while True:
        worker = state.workers[place]
        assert worker is not None
        if worker.plan is not None:
            state = next(plan_steps(state, place, worker, ""))[1]
        elif worker.looked is not None:
            state = judge(state, place, worker, "")
        else:
            return state


def part_with_all(state: JobsState, place: int) -> JobsState:
    for _ in range(8):
        worker = state.workers[place]
        assert worker is not None
        if not worker.holds:
            break
        hold = worker.holds[0]
        kind = what_next(state, hold)[0]
        state = settle(begin(state, place, plan_with(hold, kind)), place)
    return state
