"""Every step that a small job queue can take, with the real rules and transactions.

``steps`` yields what may happen next in a state: one read with its decision, one transaction, or
one reply, of one process. What was read may be as old as you like when it is decided on; what was
decided may wait as long as you like. ``broken`` names a rule to leave out.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspider_zk.errors import JobLost
from pyspider_zk.jobs import rules, transactions
from pyspider_zk.jobs.model import Claim, Claimant, Found, Job, JobState, Outcome
from pyspider_zk.jobs.rules import Concern
from tests.jobs.jobs_askers import asker_steps
from tests.jobs.jobs_broken import spoilt
from tests.jobs.jobs_states import (
    NOW,
    RULES,
    TREE,
    HeldClaim,
    JobDecision,
    JobsState,
    Seen,
    Worker,
    batch_of,
    below,
    done,
    find,
    job_of,
    put_in,
    standing,
    with_node,
    without_node,
)

Next = tuple[str, JobsState]
WRONG_ORDER = "who stands is read first"
ANY_EPOCH = "a claim outlasts the loss of its slot"
LEAVING = ("finish", "fail", "give back")


def steps(state: JobsState, broken: str = "") -> Iterator[Next]:
    """Yield everything that can happen next, with what it leads to."""
    for place, worker in enumerate(state.workers):
        if worker is not None:
            yield from worker_steps(state, place, worker, broken)
    for place, asker in enumerate(state.askers):
        yield from asker_steps(state, place, asker, broken)
    for path in orphans(state):
        yield f"the session of {path} ends", without_node(state, path)
    if state.faults:
        yield from faults(state._replace(faults=state.faults - 1))


def faults(state: JobsState) -> Iterator[Next]:
    for place, worker in enumerate(state.workers):
        if worker is None:
            continue
        workers = put_in(state.workers, place, None)
        yield f"{worker.path} crashes", state._replace(workers=workers)
        if worker.path in standing(state):
            yield f"{worker.path} loses its session", without_node(state, worker.path)
        if state.owner not in (-1, place):
            yield f"the slot moves to {worker.path}", move(state, place)
            if state.workers[state.owner] is not None:
                yield f"the owner hangs, its slot goes to {worker.path}", seize(state, place)
    for place, asker in enumerate(state.askers):
        askers = (*state.askers[:place], *state.askers[place + 1 :])
        yield f"who wanted to {asker.wants} crashes", state._replace(askers=askers)


def move(state: JobsState, place: int) -> JobsState:
    """Give the slot to another: what the one before holds it may only give back now."""
    before = state.workers[state.owner]
    if before is not None:
        holds = tuple(h._replace(leaving=h.leaving or "give back") for h in before.holds)
        state = set_worker(state, state.owner, before._replace(holds=holds))
    return state._replace(owner=place, epoch=state.epoch + 1)


def seize(state: JobsState, place: int) -> JobsState:
    """Give the slot of one whose loop hangs to another; it knows of nothing."""
    hung = state.workers[state.owner]
    assert hung is not None
    state = set_worker(state, state.owner, hung._replace(hangs=True))
    return state._replace(owner=place, epoch=state.epoch + 1)


def wake(state: JobsState, place: int, worker: Worker, broken: str) -> JobsState:
    """Let a loop go on: it parts with what it claimed before its slot went away."""
    epoch = slot_epoch_of(state, place)
    holds = tuple(
        hold
        if broken == ANY_EPOCH or rules.is_at(job_of(hold.data), epoch)
        else hold._replace(leaving=hold.leaving or "give back")
        for hold in worker.holds
    )
    return set_worker(state, place, worker._replace(holds=holds, hangs=False))


def orphans(state: JobsState) -> list[str]:
    """Return the claimants whose process is gone, or has begun another life."""
    living = {worker.path for worker in state.workers if worker}
    return [path for path in standing(state) if path not in living]


def set_worker(state: JobsState, place: int, worker: Worker | None) -> JobsState:
    return state._replace(workers=put_in(state.workers, place, worker))


def slot_epoch_of(state: JobsState, place: int) -> int:
    """Return the slot_epoch at which somebody may take jobs; 0: not at all."""
    return state.epoch if state.owner in (-1, place) else 0


def leaving_at(state: JobsState, place: int, job: Job) -> str:
    """Return how a claim that comes just now is parted with; empty: it is worked on."""
    return "" if rules.is_at(job, slot_epoch_of(state, place)) else "give back"


# --- a worker -----------------------------------------------------------------------------------


def worker_steps(state: JobsState, place: int, worker: Worker, broken: str) -> Iterator[Next]:
    if worker.path not in standing(state):
        yield f"{worker.path} begins another life", rejoin(state, place)
    if worker.plan is not None:
        yield from plan_steps(state, place, worker, broken)
        return
    if worker.looked is not None:
        yield f"{worker.path} looks who stands", judge(state, place, worker, broken)
        return
    if worker.hangs:
        yield f"{worker.path} goes on", wake(state, place, worker, broken)
        yield from tell_of(state, worker, place, ("report",))
        return
    if broken == WRONG_ORDER and worker.stood is None:
        early = worker._replace(stood=standing(state))
        yield f"{worker.path} looks who stands", set_worker(state, place, early)
    for seen in below(state, JobState.RUNNING):
        after = worker._replace(looked=seen)
        yield f"{worker.path} looks at running {seen[0]}", set_worker(state, place, after)
    if slot_epoch_of(state, place):
        for seen in below(state, JobState.PENDING):
            yield f"{worker.path} looks at pending {seen[0]}", want(state, place, worker, seen)
    yield from tell_of(state, worker, place)


def tell_of(
    state: JobsState, worker: Worker, place: int, only: tuple[str, ...] = ("report", *LEAVING)
) -> Iterator[Next]:
    for hold in worker.holds:
        for kind in what_next(state, hold):
            if kind in only:
                plan = plan_with(hold, kind)
                yield f"{worker.path} wants to {kind} {hold.name}", begin(state, place, plan)


def rejoin(state: JobsState, place: int) -> JobsState:
    """Begin another session under another name; all of the one before is dropped."""
    path = f"/c/w{state.lives}"
    state = with_node(state._replace(lives=state.lives + 1), path)
    return set_worker(state, place, Worker(path))


def judge(state: JobsState, place: int, worker: Worker, broken: str) -> JobsState:
    """Look who stands, and decide about the running job that was read before."""
    assert worker.looked is not None
    name, data, version = worker.looked
    there = standing(state) if worker.stood is None else worker.stood
    there = () if broken == "nobody is seen" else there
    claim = Claim(name, job_of(data), version)
    worker = worker._replace(looked=None, stood=None)
    held = any(
        hold.name == name and job_of(hold.data).claims == claim.job.claims for hold in worker.holds
    )
    slot_epoch = slot_epoch_of(state, place)
    concern = rules.concern_of(claim, Claimant(worker.path), held, there, slot_epoch)
    if concern is Concern.ADOPTED:
        leaving = leaving_at(state, place, claim.job)
        worker = worker._replace(holds=(*worker.holds, HeldClaim(name, data, version, leaving)))
    elif concern in (Concern.ORPHAN, Concern.OUTRUN):
        job = rules.after_death(claim.job, NOW, RULES)
        moves = transactions.return_steps(TREE, claim, job)
        worker = worker._replace(
            plan=JobDecision("give back for", name, tuple(moves), job.encode())
        )
    return set_worker(state, place, worker)


def want(state: JobsState, place: int, worker: Worker, seen: Seen) -> JobsState:
    """Decide to claim a pending job, or to end it because its batch was cancelled."""
    name, data, version = seen
    pending, batch = Found(name, job_of(data), version), batch_of(state)
    if batch and batch[0].cancelled:
        moves = transactions.cancel_pending_steps(TREE, pending, NOW)
        plan = JobDecision("end", name, tuple(moves))
    else:
        after = rules.claimed(pending.job, Claimant(worker.path), slot_epoch_of(state, place))
        moves = transactions.claim_steps(TREE, pending, after, batch and batch[1])
        plan = JobDecision("claim", name, tuple(moves), after.encode())
    return set_worker(state, place, worker._replace(plan=plan))


def what_next(state: JobsState, hold: HeldClaim) -> list[str]:
    """Return what may be done with a claim."""
    if hold.leaving:
        return [hold.leaving]
    if job_of(hold.data).cancelled:
        return ["give back"]
    return [
        "finish",
        *(["fail"] if state.fails else []),
        *(["report"] if state.reports else []),
    ]


def plan_with(hold: HeldClaim, kind: str) -> JobDecision:
    job = job_of(hold.data)
    claim = Claim(hold.name, job, hold.version)
    if kind == "report":
        after = replace(job, progress={"n": 1})
        moves = transactions.report_steps(TREE, claim, after)
    elif kind == "finish":
        after = rules.ended(job, Outcome.DONE, NOW)
        moves = transactions.finish_steps(TREE, claim, after)
    else:
        after = AFTER[kind](job)
        moves = transactions.return_steps(TREE, claim, after)
    return JobDecision(kind, hold.name, tuple(moves), after.encode(), hold)


AFTER: dict[str, Callable[[Job], Job]] = {
    "fail": lambda job: rules.after_failure(job, NOW, RULES, "bad"),
    "give back": lambda job: rules.after_return(job, NOW),
}


def begin(state: JobsState, place: int, plan: JobDecision) -> JobsState:
    """Have something in mind with a claim; who parts with it has stopped acting."""
    worker = state.workers[place]
    assert worker is not None
    assert plan.hold is not None
    holds, hold = worker.holds, plan.hold
    if plan.kind in LEAVING:
        after = hold._replace(leaving=plan.kind)
        holds = put_in(holds, holds.index(hold), after)
        plan = plan._replace(hold=after)
    state = state._replace(
        fails=state.fails - (plan.kind == "fail" and not hold.leaving),
        reports=state.reports - (plan.kind == "report"),
    )
    return set_worker(state, place, worker._replace(plan=plan, holds=holds))


def plan_steps(state: JobsState, place: int, worker: Worker, broken: str) -> Iterator[Next]:
    plan = worker.plan
    assert plan is not None
    what = f"{worker.path} {plan.kind} {plan.name}"
    if plan.sent:
        yield f"{what}: the reply comes", reply(state, place, worker, plan)
        lost = worker._replace(plan=None)
        yield f"{what}: the reply is lost", set_worker(state, place, lost)
        return
    after = done(state, spoilt(plan, broken))
    if after is None:
        yield f"{what}: refused", refusal(state, place, worker, plan)
    else:
        sent = worker._replace(plan=plan._replace(sent=True))
        yield f"{what}: done", set_worker(after, place, sent)


def reply(state: JobsState, place: int, worker: Worker, plan: JobDecision) -> JobsState:
    holds = worker.holds
    if plan.kind == "claim":
        assert plan.name is not None
        leaving = leaving_at(state, place, job_of(plan.after))
        holds = (*holds, HeldClaim(plan.name, plan.after, 0, leaving))
    elif plan.kind == "report":
        assert plan.hold is not None
        at = index_of(holds, plan.hold)
        after = holds[at]._replace(data=plan.after, version=plan.hold.version + 1)
        holds = put_in(holds, at, after)
    elif plan.hold is not None:
        holds = without_hold(holds, plan.hold)
    return set_worker(state, place, worker._replace(plan=None, holds=holds))


def refusal(state: JobsState, place: int, worker: Worker, plan: JobDecision) -> JobsState:
    """Look again after a refusal: go on, or know that the job is done with or lost."""
    holds = worker.holds
    if plan.hold is not None:
        at = index_of(holds, plan.hold)
        again = look_again(state, plan)
        holds = (
            without_hold(holds, plan.hold)
            if again is None
            else put_in(
                holds, at, holds[at]._replace(data=again.job.encode(), version=again.version)
            )
        )
    return set_worker(state, place, worker._replace(plan=None, holds=holds))


def look_again(state: JobsState, plan: JobDecision) -> Claim | None:
    assert plan.hold is not None
    assert plan.name is not None
    claim = Claim(plan.name, job_of(plan.hold.data), plan.hold.version)
    wanted = job_of(plan.after)
    arrived = find(state, TREE.job(rules.place_of(wanted), plan.name))
    if plan.kind == "report":
        arrived = None
    running = find(state, TREE.job(JobState.RUNNING, plan.name))
    try:
        return rules.after_refusal(
            claim,
            wanted,
            arrived and job_of(arrived[1]),
            running and Found(plan.name, job_of(running[1]), running[2]),
        )
    except JobLost:
        return None


def index_of(holds: tuple[HeldClaim, ...], hold: HeldClaim) -> int:
    """Find a claim that may have lost its slot meanwhile."""
    return next(at for at, one in enumerate(holds) if one[:3] == hold[:3])


def without_hold(holds: tuple[HeldClaim, ...], hold: HeldClaim) -> tuple[HeldClaim, ...]:
    at = index_of(holds, hold)
    return (*holds[:at], *holds[at + 1 :])
