"""The checker says yes to what may be and no to what may not, on histories made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checks import findings, losses, moves, owners, repeats
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
    """Return an effect on slot 1."""
    about = {"kind": "update", "slot": 1, "project": "p", "task": "t", **more}
    return Effect(member, epoch=epoch, start=start, end=end, **about)


def send(member: str, epoch: int, at: float, **more: Any) -> Effect:
    """Return the dispatch of the one page, or of something else."""
    return effect(member, epoch, at, at + 0.01, **{"kind": "send", "url": PAGE, **more})


def tenure(
    member: str, epoch: int, taken: float, left: float | None = None, **how: Any
) -> SlotTenure:
    """Return a tenure of slot 1; one that was left was handed over well."""
    handed = {"planned": left is not None, "clean": left is not None, "gone": left, **how}
    return SlotTenure(member, 1, epoch, taken, taken + 0.1, left, **handed)


def fetched(*times: float) -> list[Request]:
    """Return requests for the one page."""
    return [Request(at, "p", "/g/0") for at in times]


def final(**more: Any) -> dict[str, Any]:
    """Return the end of a run in which the one page was crawled."""
    rows = {"p": {PAGE: losses.SUCCESS}}
    return {"projects": [PROJECT], "pages": 1, "rows": rows, "results": {"p": [PAGE]}, **more}


# -- lost, stranded -----------------------------------------------------------------------------


def test_a_page_that_was_fetched_and_stands_as_done_is_not_lost() -> None:
    assert losses.lost_urls(History(requests=fetched(1), final=final())) == []


@pytest.mark.parametrize(
    "lost",
    [
        History(final=final()),
        History(requests=fetched(1), final=final(rows={"p": {}})),
        History(requests=fetched(1), final=final(rows={"p": {PAGE: losses.ACTIVE}})),
        History(requests=fetched(1), final=final(results={"p": []})),
        History(requests=[Request(1, "other", "/g/0")], final=final()),
    ],
    ids=["not fetched", "no row", "not done", "no result", "fetched by another project"],
)
def test_a_page_is_lost(lost: History) -> None:
    assert losses.lost_urls(lost) == ["p /g/0"]


def test_a_redis_that_restarted_may_have_lost_a_result_and_nothing_else() -> None:
    hits = [Hit("redis_restart", "redis", 0, 1)]
    without = History(hits=hits, requests=fetched(1), final=final(results={"p": []}))

    assert losses.lost_urls(without) == []
    assert losses.results_missing(without) == 1
    assert losses.lost_urls(replace(without, requests=[])) == ["p /g/0"]


def test_an_active_row_is_stranded_unless_its_tick_came_after_the_end() -> None:
    rows = {"p": {PAGE: losses.ACTIVE, "http://site/tick/101": losses.ACTIVE}}

    def at(ended: float) -> History:
        return History(final=final(rows=rows, times={"ended": ended}))

    assert losses.stranded(at(100)) == [f"p {PAGE}"]
    assert len(losses.stranded(at(102))) == 2
    rows["p"] |= {PAGE: losses.SUCCESS, losses.ON_FINISHED: losses.ACTIVE}
    assert losses.stranded(at(100)) == []


# -- ownership ----------------------------------------------------------------------------------


def test_effects_one_after_the_other_do_not_overlap() -> None:
    assert owners.overlaps([effect("a", 1, 0, 1), effect("b", 2, 1.5, 2)]) == []


def test_effects_of_one_owner_may_overlap() -> None:
    assert owners.overlaps([effect("a", 1, 0, 2), effect("a", 1, 1, 3)]) == []


@pytest.mark.parametrize(
    "effects",
    [
        [effect("a", 1, 0, 2), effect("b", 2, 1, 3)],
        [effect("a", 2, 0, 1), effect("b", 1, 2, 3)],
        [effect("a", 1, 0, 1), effect("b", 2, 2, 3), effect("a", 1, 4, 5)],
        [effect("a", 1, 0, 9), effect("a", 1, 1, 2), effect("b", 2, 5, 6)],
        [effect("a", 1, 0, 2), effect("b", 1, 1, 3)],
    ],
    ids=["at once", "back in epoch", "old owner again", "long and short", "same epoch twice"],
)
def test_effects_overlap(effects: list[Effect]) -> None:
    assert len(owners.overlaps(effects)) == 1


def test_effects_on_different_slots_do_not_overlap() -> None:
    assert owners.overlaps([effect("a", 1, 0, 2), effect("b", 1, 1, 3, slot=2)]) == []


def test_what_the_fence_refused_and_what_was_asked_by_hand_count_for_nothing() -> None:
    refused = effect("a", 1, 4, 5, outcome="refused")
    by_hand = effect("a", None, 4, 5)

    assert owners.overlaps([effect("b", 2, 2, 6), refused, by_hand]) == []


def test_an_effect_that_a_stop_fell_into_is_the_documented_exception() -> None:
    effects = [effect("a", 1, 1, 9), effect("b", 2, 6, 7)]
    stop = Hit("stop", "a", 2, 8)

    assert owners.overlaps(owners.without_paused(effects, [stop])) == []
    assert len(owners.overlaps(effects)) == 1


def test_a_process_may_begin_an_effect_after_it_is_told_to_stop_until_it_stands_still() -> None:
    begun = effect("a", 1, 2.1, 9)
    told = Hit("stop", "a", 2, 8)

    assert owners.without_paused([begun], [told]) == [begun]
    assert owners.without_paused([begun], [replace(told, still=2.2)]) == []
    assert owners.without_paused([begun], [replace(told, still=2.05)]) == [begun]


@pytest.mark.parametrize("stop", [Hit("stop", "b", 2, 8), Hit("stop", "a", 0, 0.5)])
def test_only_a_stop_of_that_process_in_that_time_excuses(stop: Hit) -> None:
    effects = [effect("a", 1, 1, 9), effect("b", 2, 6, 7)]

    assert len(owners.overlaps(owners.without_paused(effects, [stop]))) == 1


def test_an_effect_that_started_after_the_stop_is_not_excused() -> None:
    effects = [effect("b", 2, 6, 7), effect("a", 1, 8.1, 8.2)]

    assert len(owners.overlaps(owners.without_paused(effects, [Hit("stop", "a", 2, 8)]))) == 1


def test_an_effect_after_a_newer_owner_took_the_slot_is_late_whatever_that_one_did() -> None:
    tenures = [tenure("a", 1, 0), tenure("b", 2, 5)]
    early, at_once, after = effect("a", 1, 1, 2), effect("a", 1, 4, 6), effect("a", 1, 7, 8)

    assert owners.late(History([early, at_once, after], tenures)) == [at_once, after]
    assert owners.late(History([effect("b", 2, 6, 7)], tenures)) == []
    assert owners.late(History([replace(after, outcome="refused")], tenures)) == []
    assert owners.late(History([at_once], tenures, [Hit("stop", "a", 4.5, 9)])) == []


def test_a_commit_of_an_older_epoch_than_the_database_knows_is_late_whatever_stopped() -> None:
    sealed, late = Commit("seal", 1, 2), Commit("write", 1, 1, "a")
    written = [Commit("seal", 1, 1), late, Commit("write", 2, 1, "a"), sealed]

    assert owners.late_writes(History(commits=[*written, Commit("write", 1, 2, "b")])) == []
    stops = [Hit("stop", "a", 0, 9)]
    assert owners.late_writes(History(commits=[*written, late, late], hits=stops)) == [late, late]


def test_an_effect_without_an_epoch_was_asked_for_by_hand_or_is_a_fault() -> None:
    stray = effect("a", None, 1, 2)

    assert owners.unowned([stray, effect("a", 1, 1, 2)]) == [stray]
    assert owners.unowned([replace(stray, by_hand=True), replace(stray, outcome="refused")]) == []


# -- ticks --------------------------------------------------------------------------------------


def ticked(*numbers: int, outcome: str = "done") -> list[Effect]:
    """Return ticks that were sent."""
    return [send("a", 1, n, task="_on_cronjob", tick=n, outcome=outcome) for n in numbers]


def test_all_ticks_came() -> None:
    assert losses.missed_ticks([PROJECT], ticked(4, 6, 8, 8, 10), 3, 11) == []


def test_a_tick_in_the_middle_or_at_the_end_is_missed() -> None:
    assert losses.missed_ticks([PROJECT], ticked(4, 8), 3, 11) == ["p 6", "p 10"]


def test_a_tick_that_could_not_be_sent_is_missed() -> None:
    sent = [*ticked(4), *ticked(6, outcome="failed: Redis"), *ticked(8)]

    assert losses.missed_ticks([PROJECT], sent, 3, 8) == ["p 6"]


def test_a_project_that_never_ticks_misses_those_after_its_start() -> None:
    late = 100 + losses.START_PATIENCE

    assert losses.missed_ticks([PROJECT], [], 100, late + 3) == [f"p {late + 1}", f"p {late + 3}"]


def test_a_project_without_an_interval_misses_nothing() -> None:
    assert losses.missed_ticks([{**PROJECT, "every": 0}], [], 0, 100) == []


def test_a_tick_is_sent_once() -> None:
    tenures = [tenure("a", 1, 0, left=5), tenure("b", 2, 5.2)]
    sent = [send("a", 1, 4, tick=4), send("b", 2, 6, tick=4), send("b", 2, 6, tick=6)]

    assert losses.ticks_twice(History(sent, tenures)) == ["p 4"]
    assert losses.ticks_twice(History(sent[1:], tenures)) == []


def test_a_tick_is_sent_again_after_a_death_and_for_no_other_reason() -> None:
    tenures = [tenure("a", 1, 0), tenure("b", 2, 9)]
    history = History([send("a", 1, 4, tick=4), send("b", 2, 9.5, tick=4)], tenures)

    assert losses.ticks_twice(replace(history, hits=[Hit("kill", "a", 5, 6)])) == []
    assert losses.ticks_twice(replace(history, hits=[Hit("kill", "c", 5, 6)])) == ["p 4"]
    assert losses.ticks_twice(replace(history, hits=[Hit("clock_jump", "a", 5, 6)])) == ["p 4"]


def test_the_page_of_a_tick_is_wanted_unless_redis_may_have_lost_the_tick() -> None:
    sent = [send("a", 1, 50, task="_on_cronjob", tick=100)]
    history = History(sent, requests=fetched(1), final=final(times={"ended": 101}))

    assert losses.lost_urls(history) == ["p /tick/100"]
    assert losses.lost_urls(replace(history, final=final(times={"ended": 99}))) == []
    assert losses.lost_urls(replace(history, hits=[Hit("redis_restart", "redis", 55, 56)])) == []
    assert losses.lost_urls(replace(history, hits=[Hit("redis_restart", "redis", 75, 76)]))


# -- duplicates ---------------------------------------------------------------------------------

MOVED = [tenure("a", 1, 0, left=5), tenure("b", 2, 5.2)]
DIED = [tenure("a", 1, 0), tenure("b", 2, 9)]


def twice(**more: Any) -> History:
    """Return a history in which the page was dispatched and fetched by both owners."""
    sends = [send("a", 1, 4), send("b", 2, 9.5)]
    return History(**{"effects": sends, "requests": fetched(4.5, 10), **more})


def test_a_page_fetched_twice_around_a_planned_move_is_a_fault() -> None:
    assert repeats.duplicates_planned(twice(tenures=MOVED)) == ["p /g/0"]


def test_a_page_fetched_twice_by_one_owner_is_a_fault() -> None:
    sends = [send("a", 1, 4), send("a", 1, 9.5)]

    assert repeats.duplicates_planned(twice(effects=sends, tenures=[tenure("a", 1, 0)]))


def test_a_page_fetched_twice_because_its_owner_died_is_none() -> None:
    assert repeats.duplicates_planned(twice(tenures=DIED, hits=[Hit("kill", "a", 5, 6)])) == []


def test_a_fault_that_hit_somebody_else_explains_nothing() -> None:
    elsewhere = [Hit("kill", "c", 5, 6)]

    assert repeats.duplicates_planned(twice(tenures=MOVED, hits=elsewhere)) == ["p /g/0"]


def test_a_fault_long_before_explains_nothing() -> None:
    before = [Hit("drop_both", "a", -20, -15)]

    assert repeats.duplicates_planned(twice(tenures=MOVED, hits=before)) == ["p /g/0"]


def test_a_handoff_that_was_not_clean_explains_it_only_if_a_fault_explains_the_handoff() -> None:
    unclean = [tenure("a", 1, 0, left=5, clean=False), tenure("b", 2, 5.2)]
    away = [Hit("zk_leader_kill", "zk1", 3, 4)]

    assert repeats.duplicates_planned(twice(tenures=unclean)) == ["p /g/0"]
    assert repeats.duplicates_planned(twice(tenures=unclean, hits=away)) == []


def test_a_redis_that_restarted_in_between_explains_it() -> None:
    restarted = [Hit("redis_restart", "redis", 5, 6)]

    assert repeats.duplicates_planned(twice(tenures=MOVED, hits=restarted)) == []


def test_a_page_fetched_twice_after_one_dispatch_is_a_fault() -> None:
    assert repeats.duplicates_planned(twice(effects=[send("a", 1, 4)], tenures=MOVED))


def test_a_second_dispatch_is_a_fault_whether_it_is_fetched_or_not() -> None:
    assert repeats.duplicates_planned(twice(tenures=MOVED, requests=fetched(4.5))) == ["p /g/0"]


def done(member: str, epoch: int, at: float, **more: Any) -> Effect:
    """Return the write that stores the page as done."""
    about = {"kind": "update", "url": PAGE, "status": losses.SUCCESS, **more}
    return effect(member, epoch, at, at + 0.01, **about)


def test_nothing_explains_that_a_page_is_sent_again_after_it_was_stored_as_done() -> None:
    sends = [send("a", 1, 4), done("a", 1, 4.6), send("b", 2, 9.5)]
    hits = [Hit("kill", "a", 5, 6), Hit("redis_restart", "redis", 5, 6)]

    assert repeats.duplicates_planned(twice(effects=sends, tenures=DIED, hits=hits)) == ["p /g/0"]


def test_but_a_late_write_of_a_process_that_was_stopped_may_have_undone_it() -> None:
    late = effect("c", 1, 1, 9, url=PAGE, kind="insert", status=losses.ACTIVE)
    sends = [late, send("a", 1, 4), done("a", 1, 4.6), send("b", 2, 9.5)]

    assert repeats.duplicates_planned(twice(effects=sends, hits=[Hit("stop", "c", 2, 8)])) == []


def test_what_was_not_heard_of_until_the_time_out_was_rescued() -> None:
    again = 4 + PROCESSING_TIMEOUT + 0.1
    sends = [send("a", 1, 4), send("a", 1, again)]
    history = twice(effects=sends, tenures=[tenure("a", 1, 0)], requests=fetched(again + 0.4))

    assert repeats.rescued(history) == ["p /g/0"]
    assert repeats.duplicates_planned(history) == []
    assert repeats.rescued(replace(history, hits=[Hit("clock_jump", "a", 5, 6)])) == []
    assert repeats.rescued(replace(history, hits=[Hit("clock_jump", "b", 5, 6)])) == ["p /g/0"]


def test_a_clock_that_jumped_while_a_page_was_under_way_explains_another_dispatch() -> None:
    sends = [send("a", 1, 30), send("a", 1, 33)]
    history = twice(effects=sends, tenures=[tenure("a", 1, 0)])

    assert repeats.duplicates_planned(history) == ["p /g/0"]
    for at, told in ((25, ["p /g/0"]), (31, [])):
        hits = [Hit("clock_jump", "a", at, at + 0.5)]
        assert repeats.duplicates_planned(replace(history, hits=hits)) == told


def test_a_drop_that_the_owner_survived_explains_nothing() -> None:
    sends = [send("a", 1, 4), effect("a", 1, 7, 7.1, task="other"), send("b", 2, 9.5)]
    dropped = [Hit("drop_in", "a", 5, 6)]

    assert repeats.duplicates_planned(twice(effects=sends, tenures=DIED, hits=dropped))
    del sends[1]
    assert not repeats.duplicates_planned(twice(effects=sends, tenures=DIED, hits=dropped))


def test_an_owner_that_was_passed_over_is_explained_only_by_a_death() -> None:
    passed = [tenure("a", 1, 0, left=5), tenure("c", 3, 5.4)]
    history = twice(tenures=passed)
    killed = replace(history, hits=[Hit("kill", "b", 5.1, 6)])

    assert repeats.duplicates_planned(history) == ["p /g/0"]
    assert repeats.duplicates_planned(killed) == []
    assert repeats.duplicates_planned(replace(killed, skips=[Skip("b", 1, 2, 5.2)]))


def test_duplicates_are_counted_by_project() -> None:
    shared = [Request(1, "p", "/g/0"), Request(2, "q", "/g/0"), Request(3, "q", "/g/0")]

    assert repeats.duplicate_fetches(History(requests=shared)) == {("q", "/g/0"): 1}


# -- jobs -----------------------------------------------------------------------------------------


def batch(state: str = "done", **errors: str) -> dict[str, Any]:
    """Return the end of a run with one batch that starts one project."""
    return {"batches": {"b": {"projects": ["p"], "state": state, "errors": errors}}}


def started(member: str, epoch: int, at: float, **more: Any) -> Effect:
    """Return the dispatch of a project's ``on_start``."""
    return send(member, epoch, at, task="on_start", url="data:,on_start", **more)


def test_a_batch_that_is_done_and_started_its_project_is_not_lost() -> None:
    history = History(effects=[started("a", 1, 1)], final=batch())

    assert losses.jobs_lost(history) == []
    assert repeats.jobs_twice(history) == []


@pytest.mark.parametrize(
    "history",
    [
        History(final=batch()),
        History(effects=[started("a", 1, 1, outcome="refused")], final=batch()),
        History(effects=[started("a", 1, 1)], final=batch("running")),
        History(effects=[started("a", 1, 1)], final=batch(p="it is gone")),
    ],
    ids=["not started", "the fence was shut", "not done", "failed"],
)
def test_a_batch_that_did_not_do_what_was_asked_is_lost(history: History) -> None:
    assert losses.jobs_lost(history) == ["b p"]


def test_a_project_that_is_started_twice_by_living_owners_is_found() -> None:
    effects = [started("a", 1, 1), started("b", 2, 5)]
    tenures = [tenure("a", 1, 0, 3), tenure("b", 2, 3.1)]

    assert repeats.jobs_twice(History(effects, tenures, final=batch())) == ["p"]


def test_a_project_that_is_started_again_after_its_owner_was_killed_is_explained() -> None:
    effects = [started("a", 1, 1), started("b", 2, 8)]
    tenures = [tenure("a", 1, 0), tenure("b", 2, 7)]
    hits = [Hit("kill", "a", 2, 3)]

    assert repeats.jobs_twice(History(effects, tenures, hits, final=batch())) == []


# -- handovers ----------------------------------------------------------------------------------

STATE = {"bucket": 1.0, "rate": 2.0, "paused": True, "counted": 9, "known": True, "tick": 100}
STATE |= {"processing": 3}


def handed(found: dict[str, Any] | None, **how: Any) -> History:
    """Return a planned move in which the next owner found this of the one project."""
    states = {} if found is None else {"p": found}
    new = replace(tenure("b", 2, 5.2), found=states, **how)
    return History(tenures=[replace(tenure("a", 1, 0, left=5), given={"p": STATE}), new])


def test_all_that_was_known_is_handed_over() -> None:
    assert moves.handovers(handed(STATE)) == []
    more = {**STATE, "bucket": 1.5, "counted": 10, "tick": 102}
    assert moves.handovers(handed(more)) == []


@pytest.mark.parametrize(
    ("what", "value", "name"),
    [
        ("bucket", 3.0, "rate"),
        ("paused", False, "pause"),
        ("counted", 8, "counters"),
        ("known", False, "script information"),
        ("tick", 98, "tick"),
        ("tick", None, "tick"),
        ("processing", 2, "tasks under way"),
    ],
)
def test_what_was_not_handed_over_is_named(what: str, value: Any, name: str) -> None:
    assert moves.handovers(handed({**STATE, what: value})) == [f"p epoch 2: {name}"]


def test_a_project_that_is_gone_and_a_slot_that_came_late_are_faults() -> None:
    assert moves.handovers(handed(None)) == ["p epoch 2: all"]
    assert moves.handovers(handed(STATE, epoch=3)) == ["slot 1 epoch 1: nothing"]
    assert moves.handovers(handed(STATE, epoch=3, received=True)) == []


def test_a_death_in_between_explains_that_nothing_came() -> None:
    history = handed(STATE, epoch=3)

    assert moves.handovers(replace(history, hits=[Hit("kill", "c", 5.1, 6)])) == []
    assert moves.handovers(replace(history, hits=[Hit("drain", "c", 5.1, 6)]))


def test_what_a_locked_database_did_not_take_is_no_fault_of_the_handover() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE}, uncommitted=True)
    history = History(tenures=[old, tenure("b", 2, 5.2)])

    found = ["slot 1 epoch 1: uncommitted"]

    assert moves.handovers(history) == found
    assert moves.handovers(replace(history, hits=[Hit("kill", "c", 1, 3)])) == found
    assert moves.handovers(replace(history, hits=[Hit("stop", "c", 1, 3)])) == []


def test_what_was_not_given_up_to_the_end_in_time_was_not_handed_over() -> None:
    new, stopped = tenure("b", 2, 5.2), Hit("stop", "a", 4.9, 6)
    for gone in (None, 6.1):
        old = replace(tenure("a", 1, 0, left=5, gone=gone), given={"p": STATE})

        assert moves.handovers(History(tenures=[old, new], hits=[stopped])) == []


def test_who_could_not_load_a_project_must_pass_on_what_it_got() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE})
    between = tenure("b", 2, 5.2, left=7)
    for found, told in ((STATE, []), ({**STATE, "tick": 98}, ["p epoch 3: tick"])):
        heir = replace(tenure("c", 3, 7.2), found={"p": found})

        assert moves.handovers(History(tenures=[old, between, heir])) == told


def test_a_death_before_a_project_was_loaded_explains_that_it_came_to_nobody() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE})
    history = History(tenures=[old, tenure("b", 2, 5.2), tenure("c", 3, 9)])

    assert moves.handovers(history) == []


def test_of_two_in_between_the_one_that_died_explains_that_nothing_came() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE})
    history = History(tenures=[old, tenure("d", 4, 9)], skips=[Skip("b", 1, 2, 5.3)])

    assert moves.handovers(history) == ["slot 1 epoch 1: nothing"]
    assert moves.handovers(replace(history, hits=[Hit("kill", "c", 5.5, 6)])) == []


def test_what_was_skipped_when_another_had_it_already_was_not_passed_on() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE})
    history = History(tenures=[old, tenure("c", 3, 9)], hits=[Hit("stop", "b", 5.1, 10)])

    for at, told in ((5.2, ["slot 1 epoch 1: nothing"]), (10.1, [])):
        assert moves.handovers(replace(history, skips=[Skip("b", 1, 2, at)])) == told


def test_who_was_without_a_lease_can_hand_on_nothing() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE})
    hits = [Hit("zk_leader_kill", "zk1", 4.8, 5)]
    history = History(tenures=[old, tenure("c", 3, 9)], hits=hits)

    for is_open, told in ((False, []), (True, ["slot 1 epoch 1: nothing"])):
        skips = [Skip("b", 1, 2, 8.9, is_open)]
        assert moves.handovers(replace(history, skips=skips)) == told


def test_who_woke_when_another_had_the_slot_never_owned_it() -> None:
    old = replace(tenure("a", 1, 0, left=5), given={"p": STATE})
    hits = [Hit("stop", "b", 5.1, 10)]
    after = [tenure("b", 2, 10.1), replace(tenure("c", 3, 9), found={"p": STATE}, received=True)]

    assert moves.handovers(History(tenures=[old, *after], hits=hits)) == []
    assert moves.handovers(History(tenures=[old, after[0]], hits=hits)) == ["p epoch 2: all"]


# -- members ------------------------------------------------------------------------------------


def test_a_scheduler_that_ends_by_itself_or_with_a_code_has_fallen() -> None:
    by_itself = History(remarks=[{"e": "fallen", "target": "a", "code": 7}])
    told = History(tenures=[tenure("a", 1, 0)], hits=[Hit("drain", "a", 1, 2, 7)])
    well = History(tenures=[tenure("a", 1, 0)], hits=[Hit("drain", "a", 1, 2, 0)])

    assert losses.fallen(by_itself) == losses.fallen(told) == ["a, code 7"]
    assert losses.fallen(well) == []


def test_sigterm_ends_a_process_that_only_started_but_no_owner() -> None:
    hits = [Hit("drain", "a", 1, 2, -15)]

    assert losses.fallen(History(hits=hits)) == []
    assert losses.fallen(History(tenures=[tenure("a", 1, 0)], hits=hits)) == ["a, code -15"]


def test_a_scheduler_that_does_not_end_is_overdue() -> None:
    assert losses.overdue(History(remarks=[{"e": "overdue", "target": "a"}])) == ["a"]


def test_every_promise_is_in_the_verdict() -> None:
    times_ = {"started": 0, "ended": 1}
    history = History(final=final(times=times_, batches={}, projects=[{**PROJECT, "every": 0}]))

    assert {name for name, found in findings(history).items() if found} == {"lost"}


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


def test_a_tenure_ends_with_the_giving_up_of_its_own_epoch() -> None:
    lines = [
        {"t": 1, "e": "take", "slot": 1, "epoch": 2},
        {"t": 2, "e": "ready", "slot": 1, "epoch": 2},
        {"t": 3, "e": "give_up", "planned": True, "clean": True, "slots": {"1": 2}},
        {"t": 4, "e": "take", "slot": 1, "epoch": 4},
    ]

    assert list(tenures_of("a", lines)) == [
        SlotTenure("a", 1, 2, 1, 2, 3, planned=True, clean=True),
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
