"""All states of small job queues over the real rules: no job is lost, each rule is needed."""

from dataclasses import replace

import pytest

from pyspider_zk.jobs import rules
from pyspider_zk.jobs.rules import Concern
from tests.jobs.jobs_search import explore, recovery
from tests.jobs.jobs_states import JobsState, birth
from tests.support.exploration import Violated

PUT, CANCEL = ("put",), ("put", "cancel")
FREE = False  # everybody may take everything, as in a queue without slots

# What is explored, and how many states that is at least: a search that finds fewer is broken.
# The states come to an end by themselves.
SMALL = [
    ("one works, any fault", birth(1, 1, PUT, faults=1), 150),
    ("two and a slot, any fault", birth(1, 2, PUT, faults=1), 900),
    ("two without slots, any fault", birth(1, 2, PUT, FREE, faults=1), 2_500),
    ("one works, another cancels, any fault", birth(1, 1, CANCEL, faults=1), 4_000),
    ("two put the same batch of two jobs", birth(2, 1, ("put", "put"), faults=0), 1_000),
]
LARGE = [
    ("two and a slot, two faults", birth(1, 2, PUT, faults=2), 8_000),
    ("a failure and a report", birth(1, 2, PUT, faults=1, fails=1, reports=1), 20_000),
    ("two work, another cancels", birth(1, 2, CANCEL, FREE, faults=1), 20_000),
    ("put twice, any fault", birth(2, 1, ("put", "put"), faults=1), 20_000),
    ("two jobs, two work", birth(2, 2, PUT, FREE, faults=0), 5_000),
    ("a failure while cancelling", birth(1, 1, CANCEL, faults=2, fails=1, reports=1), 20_000),
]


def name_of(item: object) -> str:
    return item if isinstance(item, str) else ""


def look_at_all(start: JobsState, at_least: int) -> str:
    recovering, count = recovery(), 0
    for state in explore(start):
        recovering.check(state)
        count += 1
    assert count >= at_least
    return f"{count} states, from each all jobs end within {recovering.rounds} rounds of everybody"


@pytest.mark.parametrize(("name", "start", "at_least"), SMALL, ids=name_of)
def test_in_no_state_a_job_is_lost_and_all_end(name, start, at_least, capsys):
    found = look_at_all(start, at_least)

    with capsys.disabled():
        print(f"\n{name}: {found}")  # noqa: T201 - the figure


@pytest.mark.soak
@pytest.mark.parametrize(("name", "start", "at_least"), LARGE, ids=name_of)
def test_in_no_state_of_a_larger_search(name, start, at_least, capsys):
    found = look_at_all(start, at_least)

    with capsys.disabled():
        print(f"\n{name}: {found}")  # noqa: T201 - the figure


# --- each rule is needed: without it the search finds a way to a violation ----------------------

SLOT = birth(1, 2, PUT, faults=1)
OPEN = birth(1, 2, PUT, FREE, faults=1)
CANCELLED = birth(1, 1, CANCEL, faults=0, fails=1, reports=1)
CANCELLED_BY_TWO = birth(1, 2, CANCEL, FREE, faults=1)
TWICE = birth(2, 1, ("put", "put"), faults=0)
BROKEN_STEPS = [
    ("claim without deleting", SLOT),
    ("claim without creating", SLOT),
    ("claim without claimant", SLOT),
    ("claim without batch", CANCELLED),
    ("any move without turn", OPEN),
    ("report without claimant", birth(1, 1, PUT, faults=1, reports=1)),
    ("report without version", CANCELLED),
    ("finish without deleting", SLOT),
    ("finish without creating", SLOT),
    ("finish without claimant", SLOT),
    ("finish without version", CANCELLED),
    ("fail without version", CANCELLED),
    ("give back without deleting", SLOT),
    ("give back without creating", SLOT),
    ("give back for without deleting", OPEN),
    ("give back for without version", CANCELLED_BY_TWO),
    ("nobody is seen", OPEN),
    ("who stands is read first", OPEN),
    ("a claim outlasts the loss of its slot", birth(1, 2, PUT, faults=2)),
    ("put without batch", TWICE),
    ("put without version", TWICE),
    ("mark without version", CANCELLED),
    ("end without deleting", CANCELLED),
    ("pending first", CANCELLED),
]


def returned_whatever_was_asked(job, _now):
    return replace(job, claimant="")


def any_claim_of_the_claimant(job, claim):
    return job.claimant == claim.job.claimant


def lost_claims_are_known(claim, me, _held, standing, slot_epoch, rule=rules.concern_of):
    return rule(claim, me, True, standing, slot_epoch)


def known_claims_are_lost(claim, me, _held, standing, slot_epoch, rule=rules.concern_of):
    return rule(claim, me, False, standing, slot_epoch)


def the_dead_keep_their_jobs(claim, me, held, standing, slot_epoch, rule=rules.concern_of):
    concern = rule(claim, me, held, standing, slot_epoch)
    return Concern.OTHERS if concern is Concern.ORPHAN else concern


def the_hung_keep_their_jobs(claim, me, held, standing, slot_epoch, rule=rules.concern_of):
    concern = rule(claim, me, held, standing, slot_epoch)
    return Concern.OTHERS if concern is Concern.OUTRUN else concern


def an_equal_slot_epoch_is_enough(claim, me, held, standing, slot_epoch, rule=rules.concern_of):
    return rule(claim, me, held, standing, slot_epoch + 1 if slot_epoch else 0)


@pytest.mark.parametrize(("broken", "start"), BROKEN_STEPS, ids=name_of)
def test_without_a_step_of_a_transaction_a_violation_is_found(broken, start):
    with pytest.raises(Violated) as found:
        for _ in explore(start, broken):
            pass
    print(found.value)  # noqa: T201 - the counterexample


BROKEN_RULES = [
    ("after_return", returned_whatever_was_asked, CANCELLED),
    ("concern_of", known_claims_are_lost, SLOT),
    ("concern_of", lost_claims_are_known, SLOT),
    ("concern_of", the_dead_keep_their_jobs, OPEN),
    ("concern_of", the_hung_keep_their_jobs, SLOT),
    ("concern_of", an_equal_slot_epoch_is_enough, OPEN),
    ("is_same_claim", any_claim_of_the_claimant, birth(1, 1, PUT, faults=0, fails=1, reports=1)),
]


@pytest.mark.parametrize(
    ("rule", "broken", "start"), BROKEN_RULES, ids=lambda item: getattr(item, "__name__", "")
)
def test_without_a_rule_of_the_core_a_violation_is_found(rule, broken, start, monkeypatch):
    monkeypatch.setattr(rules, rule, broken)

    with pytest.raises(AssertionError) as found:
        look_at_all(start, 0)
    print(found.value)  # noqa: T201 - the counterexample
