"""The checker says yes to what may be and no to what may not, on histories made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checks import PROMISES, findings, losses, moves, repeats
from tests.chaos.history import (
    Effect,
    History,
    Hit,
    Request,
    Skip,
    SlotTenure,
    effects_of,
    hits_of,
    skips_of,
    tenures_of,
)
from tests.chaos.recorder import PROCESSING_TIMEOUT, Commit

PROJECT = {"name": "p", "graph": "g", "every": 2}
PAGE = "http://site/g/0"


def effect(member: str, epoch: int | None, start: float, end: float, **more: Any) -> Effect:
    about = {"kind": "update", "slot": 1, "project": "p", "task": "t", **more}
    return Effect(member, epoch=epoch, start=start, end=end, **about)


def send(member: str, epoch: int, at: float, **more: Any) -> Effect:
    """Return the dispatch of the one page, or of something else."""
    return effect(member, epoch, at, at + 0.01, **{"kind": "send", "url": PAGE, **more})


def done(member: str, epoch: int, at: float) -> Effect:
    """Return the write that stores the page as done."""
    return effect(member, epoch, at, at + 0.01, url=PAGE, status=losses.SUCCESS)


def started(member: str, epoch: int, at: float, **more: Any) -> Effect:
    """Return the dispatch of a project's ``on_start``."""
    return send(member, epoch, at, task="on_start", url="data:,on_start", **more)


def ticked(*numbers: int, outcome: str = "done") -> list[Effect]:
    return [send("a", 1, n, task="_on_cronjob", tick=n, outcome=outcome) for n in numbers]


def tenure(
    member: str, epoch: int, taken: float, left: float | None = None, **how: Any
) -> SlotTenure:
    """Return a tenure of slot 1; one that was left was handed over well."""
    more = {"planned": left is not None, "clean": left is not None, "gone": left}
    return replace(SlotTenure(member, 1, epoch, taken, taken + 0.1, left, **more), **how)


def fetched(*times: float) -> list[Request]:
    return [Request(at, "p", "/g/0") for at in times]


def final(**more: Any) -> dict[str, Any]:
    """Return the end of a run in which the one page was crawled."""
    rows = {"p": {PAGE: losses.SUCCESS}}
    return {"projects": [PROJECT], "pages": 1, "rows": rows, "results": {"p": [PAGE]}, **more}


def left(ended: float, **rows: int) -> History:
    """Return a run that left these rows; it ended then."""
    return History(final=final(rows={"p": rows}, times={"ended": ended}))


def ticking(effects: list[Effect], begin: float, end: float, every: int = 2) -> History:
    """Return a run of a project with an interval."""
    projects = [{**PROJECT, "every": every}]
    return History(effects, final={"projects": projects, "times": {"started": begin, "ended": end}})


def batch(state: str = "done", **errors: str) -> dict[str, Any]:
    """Return the end of a run with one batch that starts one project."""
    return {"batches": {"b": {"projects": ["p"], "state": state, "errors": errors}}}


MOVED = [tenure("a", 1, 0, left=5), tenure("b", 2, 5.2)]
DIED = [tenure("a", 1, 0), tenure("b", 2, 9)]


def twice(*effects: Effect, **more: Any) -> History:
    """Return a history in which the page was dispatched and fetched by both owners."""
    sends = list(effects) or [send("a", 1, 4), send("b", 2, 9.5)]
    return History(**{"effects": sends, "requests": fetched(4.5, 10), **more})


STATE = {"bucket": 1.0, "rate": 2.0, "paused": True, "counted": 9, "known": True, "tick": 100}
STATE |= {"processing": 3}
GIVEN = tenure("a", 1, 0, left=5, given={"p": STATE})
"""Knows all that, and hands it over."""


def handed(*after: SlotTenure, old: SlotTenure = GIVEN, **more: Any) -> History:
    """Return a planned move to others."""
    return History(tenures=[old, *after], **more)


def found(**less: Any) -> SlotTenure:
    """Return the next owner, who found something else of the one project than was given."""
    return tenure("b", 2, 5.2, found={"p": {**STATE, **less}})


LOST, AGAIN, TWICE = ["p /g/0"], ["p /g/0"], ["p 4"]
KILL, STOP = Hit("kill", "a", 5, 6), Hit("stop", "a", 2, 8)
REDIS = Hit("redis_restart", "redis", 5, 6)
AWAY = Hit("zk_leader_kill", "zk1", 3, 4)

# -- what is found of which history: a list, or how many ------------------------------------------

OWNED = [tenure("a", 1, 0), tenure("b", 2, 5)]
LATE = effect("a", 1, 7, 8)
SEALED = [Commit("seal", 1, 1), Commit("write", 1, 1, "a"), Commit("write", 2, 1, "a")]
SEALED += [Commit("seal", 1, 2)]
PAUSED = [effect("a", 1, 1, 9), effect("b", 2, 6, 7)]

PATIENT = 100 + losses.START_PATIENCE
OF_A_TICK = History(
    [send("a", 1, 50, task="_on_cronjob", tick=100)],
    requests=fetched(1),
    final=final(times={"ended": 101}),
)
AFTER_DEATH = History(
    [send("a", 1, 4, tick=4), send("b", 2, 9.5, tick=4)], [tenure("a", 1, 0), tenure("b", 2, 9)]
)

UNCLEAN = [tenure("a", 1, 0, left=5, clean=False), tenure("b", 2, 5.2)]
PASSED = twice(tenures=[tenure("a", 1, 0, left=5), tenure("c", 3, 5.4)])
MINE = [tenure("a", 1, 0)]
TIMED_OUT = twice(
    send("a", 1, 4),
    send("a", 1, 4 + PROCESSING_TIMEOUT + 0.1),
    tenures=MINE,
    requests=fetched(4 + PROCESSING_TIMEOUT + 0.5),
)
SOON = twice(send("a", 1, 30), send("a", 1, 33), tenures=MINE)
WENT_ON = effect("a", 1, 7, 7.1, task="other")
DROPPED = [Hit("drop_in", "a", 5, 6)]
STORED = (send("a", 1, 4), done("a", 1, 4.6), send("b", 2, 9.5))
UNDOING = effect("c", 1, 1, 9, url=PAGE, kind="insert", status=losses.ACTIVE)
STARTS = [started("a", 1, 1), started("b", 2, 8)]

NEXT = tenure("b", 2, 5.2)
NOTHING = ["slot 1 epoch 1: nothing"]
ONE_LATER = tenure("b", 3, 5.2, found={"p": STATE})
UNCOMMITTED = replace(GIVEN, uncommitted=True)
HEIR = tenure("c", 3, 9)
KNOWING = tenure("c", 3, 9, found={"p": STATE}, received=True)
WOKE = tenure("b", 2, 10.1)
AWAY_NOW = [Hit("zk_leader_kill", "zk1", 4.8, 5)]


CASES: dict[str, dict[str, tuple[History, list[str] | int]]] = {
    "lost": {
        "fetched and done": (History(requests=fetched(1), final=final()), 0),
        "not fetched": (History(final=final()), LOST),
        "no row": (History(requests=fetched(1), final=final(rows={"p": {}})), LOST),
        "not done": (
            History(requests=fetched(1), final=final(rows={"p": {PAGE: losses.ACTIVE}})),
            LOST,
        ),
        "no result": (History(requests=fetched(1), final=final(results={"p": []})), LOST),
        "fetched by another project": (
            History(requests=[Request(1, "other", "/g/0")], final=final()),
            LOST,
        ),
        "no result after Redis restarted": (
            History(hits=[REDIS], requests=fetched(1), final=final(results={"p": []})),
            0,
        ),
        "not fetched after Redis restarted": (
            History(hits=[REDIS], final=final(results={"p": []})),
            LOST,
        ),
        "its page is wanted": (OF_A_TICK, ["p /tick/100"]),
        "its page is not wanted after the end": (
            replace(OF_A_TICK, final=final(times={"ended": 99})),
            0,
        ),
        "Redis may have lost it": (
            replace(OF_A_TICK, hits=[Hit("redis_restart", "redis", 55, 56)]),
            0,
        ),
        "Redis cannot have lost it": (
            replace(OF_A_TICK, hits=[Hit("redis_restart", "redis", 75, 76)]),
            1,
        ),
    },
    "stranded": {
        "left active": (left(100, **{PAGE: losses.ACTIVE}), [f"p {PAGE}"]),
        "a tick after the end": (left(100, **{"http://site/tick/101": losses.ACTIVE}), 0),
        "a tick before the end": (left(102, **{"http://site/tick/101": losses.ACTIVE}), 1),
        "on_finished of one that ticks": (
            left(100, **{PAGE: losses.SUCCESS, losses.ON_FINISHED: losses.ACTIVE}),
            0,
        ),
    },
    "overlaps": {
        "one after the other": (History([effect("a", 1, 0, 1), effect("b", 2, 1.5, 2)]), 0),
        "of one owner": (History([effect("a", 1, 0, 2), effect("a", 1, 1, 3)]), 0),
        "at once": (History([effect("a", 1, 0, 2), effect("b", 2, 1, 3)]), 1),
        "back in epoch": (History([effect("a", 2, 0, 1), effect("b", 1, 2, 3)]), 1),
        "old owner again": (
            History([effect("a", 1, 0, 1), effect("b", 2, 2, 3), effect("a", 1, 4, 5)]),
            1,
        ),
        "long and short": (
            History([effect("a", 1, 0, 9), effect("a", 1, 1, 2), effect("b", 2, 5, 6)]),
            1,
        ),
        "same epoch twice": (History([effect("a", 1, 0, 2), effect("b", 1, 1, 3)]), 1),
        "on different slots": (History([effect("a", 1, 0, 2), effect("b", 1, 1, 3, slot=2)]), 0),
        "what the fence refused": (
            History([effect("b", 2, 2, 6), effect("a", 1, 4, 5, outcome="refused")]),
            0,
        ),
        "by hand": (History([effect("b", 2, 2, 6), effect("a", None, 4, 5)]), 0),
        "a stop fell into it": (History(PAUSED, hits=[STOP]), 0),
        "no stop": (History(PAUSED), 1),
        "a stop of another": (History(PAUSED, hits=[Hit("stop", "b", 2, 8)]), 1),
        "a stop before": (History(PAUSED, hits=[Hit("stop", "a", 0, 0.5)]), 1),
        "begun after the stop": (
            History([effect("b", 2, 6, 7), effect("a", 1, 8.1, 8.2)], hits=[STOP]),
            1,
        ),
        "told to stop, not yet still": (
            History([effect("a", 1, 2.1, 9), PAUSED[1]], hits=[replace(STOP, still=2.05)]),
            1,
        ),
        "told to stop, and still": (
            History([effect("a", 1, 2.1, 9), PAUSED[1]], hits=[replace(STOP, still=2.2)]),
            0,
        ),
    },
    "late": {
        "before a newer owner": (History([effect("a", 1, 1, 2)], OWNED), 0),
        "until a newer owner": (History([effect("a", 1, 4, 6)], OWNED), 1),
        "after a newer owner": (History([LATE], OWNED), 1),
        "of the newer owner": (History([effect("b", 2, 6, 7)], OWNED), 0),
        "late and refused": (History([replace(LATE, outcome="refused")], OWNED), 0),
        "late and stopped": (History([effect("a", 1, 4, 6)], OWNED, [Hit("stop", "a", 4.5, 9)]), 0),
    },
    "late_writes": {
        "commits in order": (History(commits=[*SEALED, Commit("write", 1, 2, "b")]), 0),
        "late commits, whatever stopped": (
            History(commits=[*SEALED, SEALED[1], SEALED[1]], hits=[Hit("stop", "a", 0, 9)]),
            2,
        ),
    },
    "unowned": {
        "without an epoch": (History([effect("a", None, 1, 2)]), 1),
        "with an epoch": (History([effect("a", 1, 1, 2)]), 0),
        "without one, by hand": (History([effect("a", None, 1, 2, by_hand=True)]), 0),
        "without one, refused": (History([effect("a", None, 1, 2, outcome="refused")]), 0),
    },
    "missed_ticks": {
        "all came": (ticking(ticked(4, 6, 8, 8, 10), 3, 11), 0),
        "missed in the middle or at the end": (ticking(ticked(4, 8), 3, 11), ["p 6", "p 10"]),
        "could not be sent": (
            ticking([*ticked(4, 8), *ticked(6, outcome="failed: Redis")], 3, 8),
            ["p 6"],
        ),
        "never ticks": (ticking([], 100, PATIENT + 3), [f"p {PATIENT + 1}", f"p {PATIENT + 3}"]),
        "without an interval": (ticking([], 0, 100, every=0), 0),
    },
    "ticks_twice": {
        "by two owners": (
            History([send("a", 1, 4, tick=4), send("b", 2, 6, tick=4)], MOVED),
            TWICE,
        ),
        "each once": (History([send("b", 2, 6, tick=4), send("b", 2, 6, tick=6)]), 0),
        "after a death": (replace(AFTER_DEATH, hits=[KILL]), 0),
        "after the death of another": (replace(AFTER_DEATH, hits=[Hit("kill", "c", 5, 6)]), TWICE),
        "after a clock jumped": (replace(AFTER_DEATH, hits=[Hit("clock_jump", "a", 5, 6)]), TWICE),
    },
    "duplicates_planned": {
        "around a planned move": (twice(tenures=MOVED), AGAIN),
        "by one owner": (twice(send("a", 1, 4), send("a", 1, 9.5), tenures=MINE), AGAIN),
        "its owner died": (twice(tenures=DIED, hits=[KILL]), 0),
        "another one died": (twice(tenures=MOVED, hits=[Hit("kill", "c", 5, 6)]), AGAIN),
        "a fault long before": (
            twice(tenures=MOVED, hits=[Hit("drop_both", "a", -20, -15)]),
            AGAIN,
        ),
        "an unclean handoff": (twice(tenures=UNCLEAN), AGAIN),
        "an explained handoff": (twice(tenures=UNCLEAN, hits=[AWAY]), 0),
        "Redis restarted in between": (twice(tenures=MOVED, hits=[REDIS]), 0),
        "fetched twice, sent once": (twice(send("a", 1, 4), tenures=MOVED), AGAIN),
        "its fetcher was killed": (
            twice(send("a", 1, 4), tenures=MOVED, hits=[Hit("worker_kill", "fetcher-0", 5, 6)]),
            0,
        ),
        "fetched more often than a fetcher was killed": (
            twice(
                send("a", 1, 4),
                tenures=MOVED,
                requests=fetched(4.5, 7, 10),
                hits=[Hit("worker_kill", "fetcher-0", 5, 6)],
            ),
            AGAIN,
        ),
        "a fetcher was killed later": (
            twice(send("a", 1, 4), tenures=MOVED, hits=[Hit("worker_kill", "fetcher-0", 11, 12)]),
            AGAIN,
        ),
        "a processor was killed": (
            twice(send("a", 1, 4), tenures=MOVED, hits=[Hit("worker_kill", "processor-0", 5, 6)]),
            AGAIN,
        ),
        "sent twice, fetched once": (twice(tenures=MOVED, requests=fetched(4.5)), AGAIN),
        "after it was done, whatever happened": (
            twice(*STORED, tenures=DIED, hits=[KILL, REDIS]),
            AGAIN,
        ),
        "a stopped write may have undone it": (
            twice(UNDOING, *STORED, hits=[Hit("stop", "c", 2, 8)]),
            0,
        ),
        "not heard of is no duplicate": (TIMED_OUT, 0),
        "too soon": (SOON, AGAIN),
        "a jump before": (replace(SOON, hits=[Hit("clock_jump", "a", 25, 25.5)]), AGAIN),
        "a jump meanwhile": (replace(SOON, hits=[Hit("clock_jump", "a", 31, 31.5)]), 0),
        "a drop that was survived": (
            twice(send("a", 1, 4), WENT_ON, send("b", 2, 9.5), tenures=DIED, hits=DROPPED),
            AGAIN,
        ),
        "a drop that cost the slot": (twice(tenures=DIED, hits=DROPPED), 0),
        "passed over": (PASSED, AGAIN),
        "passed over and died": (replace(PASSED, hits=[Hit("kill", "b", 5.1, 6)]), 0),
        "passed over, skipped and died": (
            replace(PASSED, hits=[Hit("kill", "b", 5.1, 6)], skips=[Skip("b", 1, 2, 5.2)]),
            AGAIN,
        ),
    },
    "rescued": {
        "not heard of": (TIMED_OUT, AGAIN),
        "its clock jumped": (replace(TIMED_OUT, hits=[Hit("clock_jump", "a", 5, 6)]), 0),
        "another clock jumped": (replace(TIMED_OUT, hits=[Hit("clock_jump", "b", 5, 6)]), AGAIN),
    },
    "jobs_lost": {
        "a batch is done": (History([started("a", 1, 1)], final=batch()), 0),
        "not started": (History(final=batch()), ["b p"]),
        "the fence was shut": (
            History([started("a", 1, 1, outcome="refused")], final=batch()),
            ["b p"],
        ),
        "a batch runs": (History([started("a", 1, 1)], final=batch("running")), ["b p"]),
        "a batch failed": (History([started("a", 1, 1)], final=batch(p="it is gone")), ["b p"]),
    },
    "jobs_twice": {
        "started once": (History([started("a", 1, 1)], final=batch()), 0),
        "started by living owners": (
            History(STARTS, [tenure("a", 1, 0, 3), tenure("b", 2, 3.1)], final=batch()),
            ["p"],
        ),
        "started after a kill": (
            History(
                STARTS,
                [tenure("a", 1, 0), tenure("b", 2, 7)],
                [Hit("kill", "a", 2, 3)],
                final=batch(),
            ),
            0,
        ),
    },
    "handovers": {
        "all that was known": (handed(found()), 0),
        "more than was known": (handed(found(bucket=1.5, counted=10, tick=102)), 0),
        **{
            f"{what} {value}": (handed(found(**{what: value})), [f"p epoch 2: {name}"])
            for what, value, name in (
                ("bucket", 3.0, "rate"),
                ("paused", False, "pause"),
                ("counted", 8, "counters"),
                ("known", False, "script information"),
                ("tick", 98, "tick"),
                ("tick", None, "tick"),
                ("processing", 2, "tasks under way"),
            )
        },
        "a project is gone": (handed(NEXT), ["p epoch 2: all"]),
        "one in between": (handed(ONE_LATER), NOTHING),
        "one in between who passed it on": (handed(replace(ONE_LATER, received=True)), 0),
        "one in between who died": (handed(ONE_LATER, hits=[Hit("kill", "c", 5.1, 6)]), 0),
        "one in between who left": (handed(ONE_LATER, hits=[Hit("drain", "c", 5.1, 6)]), NOTHING),
        "uncommitted": (handed(NEXT, old=UNCOMMITTED), ["slot 1 epoch 1: uncommitted"]),
        "uncommitted, one was killed": (
            handed(NEXT, old=UNCOMMITTED, hits=[Hit("kill", "c", 1, 3)]),
            ["slot 1 epoch 1: uncommitted"],
        ),
        "uncommitted, one was stopped": (
            handed(NEXT, old=UNCOMMITTED, hits=[Hit("stop", "c", 1, 3)]),
            0,
        ),
        "never given up to the end": (
            handed(NEXT, old=replace(GIVEN, gone=None), hits=[Hit("stop", "a", 4.9, 6)]),
            0,
        ),
        "given up too late": (
            handed(NEXT, old=replace(GIVEN, gone=6.1), hits=[Hit("stop", "a", 4.9, 6)]),
            0,
        ),
        "passed on unloaded": (
            handed(tenure("b", 2, 5.2, left=7), tenure("c", 3, 7.2, found={"p": STATE})),
            0,
        ),
        "passed on unloaded, and less": (
            handed(
                tenure("b", 2, 5.2, left=7), tenure("c", 3, 7.2, found={"p": {**STATE, "tick": 98}})
            ),
            ["p epoch 3: tick"],
        ),
        "died before a project was loaded": (handed(NEXT, HEIR), 0),
        "of two one skipped": (handed(tenure("d", 4, 9), skips=[Skip("b", 1, 2, 5.3)]), NOTHING),
        "of two one skipped and one died": (
            handed(
                tenure("d", 4, 9), skips=[Skip("b", 1, 2, 5.3)], hits=[Hit("kill", "c", 5.5, 6)]
            ),
            0,
        ),
        "skipped in time": (
            handed(HEIR, hits=[Hit("stop", "b", 5.1, 10)], skips=[Skip("b", 1, 2, 5.2)]),
            NOTHING,
        ),
        "skipped too late": (
            handed(HEIR, hits=[Hit("stop", "b", 5.1, 10)], skips=[Skip("b", 1, 2, 10.1)]),
            0,
        ),
        "skipped with a lease": (
            handed(HEIR, hits=AWAY_NOW, skips=[Skip("b", 1, 2, 8.9, True)]),
            NOTHING,
        ),
        "skipped without a lease": (
            handed(HEIR, hits=AWAY_NOW, skips=[Skip("b", 1, 2, 8.9, False)]),
            0,
        ),
        "woke when another had the slot": (
            handed(WOKE, KNOWING, hits=[Hit("stop", "b", 5.1, 10)]),
            0,
        ),
        "woke when nobody had it": (
            handed(WOKE, hits=[Hit("stop", "b", 5.1, 10)]),
            ["p epoch 2: all"],
        ),
    },
    "fallen": {
        "ended by itself": (
            History(remarks=[{"e": "fallen", "target": "a", "code": 7}]),
            ["a, code 7"],
        ),
        "told, with a code": (
            History(tenures=MINE, hits=[Hit("drain", "a", 1, 2, 7)]),
            ["a, code 7"],
        ),
        "told, and well": (History(tenures=MINE, hits=[Hit("drain", "a", 1, 2, 0)]), 0),
        "SIGTERM while it started": (History(hits=[Hit("drain", "a", 1, 2, -15)]), 0),
        "SIGTERM of an owner": (
            History(tenures=MINE, hits=[Hit("drain", "a", 1, 2, -15)]),
            ["a, code -15"],
        ),
    },
    "overdue": {
        "did not end": (History(remarks=[{"e": "overdue", "target": "a"}]), ["a"]),
    },
}
"""By promise, and in a word or two: a history, and what is found of it, or how much."""


@pytest.mark.parametrize(
    ("promise", "what"), [(promise, what) for promise, cases in CASES.items() for what in cases]
)
def test_what_may_not_be_is_found_and_nothing_else(promise: str, what: str) -> None:
    history, expected = CASES[promise][what]
    told = PROMISES[promise](history)

    assert told == expected if isinstance(expected, list) else len(told) == expected, told


def test_results_that_redis_lost_are_counted() -> None:
    without, _ = CASES["lost"]["no result after Redis restarted"]

    assert losses.results_missing(without) == 1


def test_duplicates_are_counted_by_project() -> None:
    shared = [Request(1, "p", "/g/0"), Request(2, "q", "/g/0"), Request(3, "q", "/g/0")]

    assert repeats.duplicate_fetches(History(requests=shared)) == {("q", "/g/0"): 1}


def test_every_promise_is_in_the_verdict() -> None:
    times = {"started": 0, "ended": 1}
    history = History(final=final(times=times, batches={}, projects=[{**PROJECT, "every": 0}]))

    assert {name for name, told in findings(history).items() if told} == {"lost"}


# -- times --------------------------------------------------------------------------------------


def test_a_pause_lasts_from_giving_up_to_having_loaded() -> None:
    ((seconds, disturbed),) = moves.pauses(History([effect("a", 1, 0, 1)], MOVED))

    assert seconds == pytest.approx(0.3)
    assert not disturbed


def test_a_pause_in_which_a_fault_happened_is_told_apart() -> None:
    hits = [Hit("zk_member_kill", "zk1", 4, 5)]
    (pause,) = moves.pauses(History([effect("a", 1, 0, 1)], MOVED, hits))

    assert pause[1]


def test_a_death_is_no_planned_move() -> None:
    assert moves.pauses(History(effects=[effect("a", 1, 0, 1)], tenures=DIED)) == []


def test_a_takeover_lasts_from_the_fault_to_having_loaded() -> None:
    history = History([effect("a", 1, 0, 1)], DIED, [Hit("kill", "a", 5, 6)])

    assert moves.takeovers(history) == [pytest.approx(4.1)]


def test_a_slot_that_its_owner_kept_was_not_taken_over() -> None:
    went_on = [effect("a", 1, 0, 1), effect("a", 1, 7, 7)]

    assert moves.takeovers(History(went_on, DIED, [Hit("drop_in", "a", 5, 6)])) == []


def test_a_slot_given_up_before_the_fault_was_not_taken_over() -> None:
    history = History([effect("a", 1, 0, 1)], MOVED, [Hit("kill", "a", 5.1, 6)])

    assert moves.takeovers(history) == []


@pytest.mark.parametrize(("share", "found"), [(0.5, 3), (0.99, 4), (1, 4)])
def test_percentiles(share: float, found: int) -> None:
    assert moves.percentile([4, 1, 3, 2], share) == found


def test_there_is_no_percentile_of_nothing() -> None:
    assert moves.percentile([], 0.5) is None


# -- reading ------------------------------------------------------------------------------------


def test_an_effect_without_an_end_is_unknown() -> None:
    line = {"t": 1, "e": "send", "n": 0, "slot": 1, "epoch": 2, "project": "p", "task": "t"}
    (found,) = effects_of("a", [{**line, "tick": None, "url": None}])

    assert (found.start, found.end, found.outcome) == (1, 1, "unknown")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_tenure_ends_with_the_giving_up_of_its_own_epoch(is_open: bool) -> None:
    lines: list[dict[str, Any]] = [
        {"t": 1, "e": "take", "slot": 1, "epoch": 2},
        {"t": 2, "e": "ready", "slot": 1, "epoch": 2},
        {"t": 3, "e": "give_up", "planned": True, "clean": True, "slots": {"1": 2}},
        {"t": 3.5, "e": "gave_up", "slots": {"1": 2}, "open": is_open},
        {"t": 4, "e": "take", "slot": 1, "epoch": 4},
    ]

    assert list(tenures_of("a", lines)) == [
        SlotTenure("a", 1, 2, 1, 2, 3, 3.5, planned=True, clean=is_open),
        SlotTenure("a", 1, 4, 4),
    ]


def test_what_a_scheduler_tells_is_read() -> None:
    lines: list[dict[str, Any]] = [
        {"t": 1, "e": "take", "slot": 1, "epoch": 2, "clean": True},
        {"t": 2, "e": "ready", "slot": 1, "epoch": 2, "states": {"p": STATE}},
        {"t": 3, "e": "give_up", "slots": {"1": 2}, "states": {"1": {"p": STATE}}},
        {"t": 4, "e": "skip", "slot": 1, "epoch": 4, "open": False},
    ]
    (found,) = tenures_of("a", lines)

    assert (found.received, found.found, found.given) == (True, {"p": STATE}, {"p": STATE})
    assert list(skips_of("a", lines)) == [Skip("a", 1, 4, 4, False)]


def test_how_a_scheduler_ended_is_read() -> None:
    lines = [
        {"t": 1, "e": "fault", "n": 0, "kind": "drain", "target": "a"},
        {"t": 2, "e": "healed", "n": 0, "code": 7},
    ]

    assert hits_of(lines) == [Hit("drain", "a", 1, 2, 7)]
