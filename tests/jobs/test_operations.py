"""What can be asked for, for which projects, and what a batch amounts to."""

import math
import random
import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import CUT, REASON_LIMIT, BadRequest
from pyspider_zk.jobs.answers import (
    ERRORS_SHOWN,
    batch_dict,
    ended_event,
    failures,
    outcome_dict,
)
from pyspider_zk.jobs.model import (
    TRANSACTION_LIMIT,
    Batch,
    BatchRecord,
    Job,
    JobName,
    JobState,
    Outcome,
)
from pyspider_zk.jobs.operations import (
    Operation,
    Progress,
    check_arguments,
    check_operation,
    is_locked,
    with_delete,
    within_limits,
)
from pyspider_zk.projects.rows import split_group
from pyspider_zk.projects.selection import Selection

ROWS: dict[str, dict[str, Any]] = {
    "news_a": {"group": "News, daily", "status": "RUNNING", "owner": 0},
    "news_b": {"group": None, "status": "STOP", "owner": 1},
    "shop": {"group": "daily", "status": "STOP", "owner": None},
}

# --- what not everybody may do ----------------------------------------------------------------


def test_a_rate_is_cut_to_what_is_allowed_and_nothing_else_is() -> None:
    limits = {"rate": 2.0}
    assert within_limits("rate", {"rate": 9, "burst": 9}, limits) == {"rate": 2.0, "burst": 9}
    assert within_limits("rate", {"rate": 1}, limits) == {"rate": 1}
    assert within_limits("group", {"rate": 9}, limits) == {"rate": 9}
    for strange in (None, "x", {"rate": "fast"}, {"rate": True}, {7: 9}):
        assert within_limits("rate", strange, limits) == strange


@pytest.mark.parametrize("group", ["lock", "news, Lock", "LOCK;daily"])
def test_a_group_of_that_name_locks(group: str) -> None:
    assert is_locked(group)
    assert not is_locked(group.lower().replace("lock", "locked"))
    assert not is_locked(None)


# --- operations ---------------------------------------------------------------------------------


def test_an_unknown_operation_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadRequest, match="no operation 'paint'; known are start, run, stop"):
        check_operation("paint")
    for strange in (None, 1, [], "START"):
        with pytest.raises(BadRequest):
            check_operation(strange)


@pytest.mark.parametrize(
    ("operation", "given", "complete"),
    [
        ("start", {}, {}),
        ("delete", {}, {"wait": False}),
        ("delete", {"wait": True}, {"wait": True}),
        ("rate", {"rate": 1, "burst": 2.5}, {"rate": 1, "burst": 2.5}),
        ("group", {"group": ""}, {"group": ""}),
        ("status", {"status": "CHECKING"}, {"status": "CHECKING"}),
        ("refetch", {}, {}),
        ("refetch", {"tasks": ("a", 7), "error": None}, {"tasks": ["a", 7]}),
        ("refetch", {"state": "BAD", "callback": "f"}, {"state": "BAD", "callback": "f"}),
        ("refetch", {"callback": ""}, {"callback": ""}),
    ],
)
def test_arguments_are_completed(
    operation: str, given: dict[str, Any], complete: dict[str, Any]
) -> None:
    assert check_arguments(Operation(operation), given) == complete


@pytest.mark.parametrize(
    ("operation", "wrong", "told"),
    [
        ("start", {"now": 1}, "start has no argument now; known are: none"),
        ("start", [], "arguments must be an object"),
        ("delete", {"wait": 1}, "delete: wait must be true or false"),
        ("rate", {"rate": 1}, "rate: burst must be a number"),
        ("rate", {"rate": -1, "burst": 1}, "rate: rate must be 0 or more"),
        ("rate", {"rate": True, "burst": 1}, "rate: rate must be a number"),
        ("rate", {"rate": math.nan, "burst": 1}, "rate: rate must be 0 or more"),
        ("rate", {"rate": 1, "burst": math.inf}, "rate: burst must be 0 or more"),
        ("rate", {"rate": 10**400, "burst": 1}, "rate: rate must be 0 or more"),
        ("rate", {"rate": 1, "burst": 2**63}, "rate: burst must be 0 or more"),
        ("group", {"group": None}, "group: group must be text"),
        ("group", {"group": "\ud800"}, r"group: group must be text, not '\ud800'"),
        ("status", {"status": "running"}, "status: status must be one of TODO, STOP"),
        ("status", {"status": []}, "status: status must be one of"),
        ("refetch", {"task": "a"}, "refetch has no argument task; known are: tasks, state"),
        ("refetch", {"tasks": "a"}, "refetch: tasks must be a list of task ids"),
        ("refetch", {"tasks": []}, "refetch: tasks must be a list of task ids"),
        ("refetch", {"tasks": ["a" * 256]}, "refetch: tasks must be a list of task ids"),
        ("refetch", {"tasks": [True]}, "refetch: tasks must be a list of task ids"),
        ("refetch", {"tasks": ["a"] * 1001}, "refetch: tasks has 1001 ids, the limit is 1000"),
        ("refetch", {"state": "ACTIVE"}, "refetch: state must be one of FAILED, SUCCESS, BAD"),
        ("refetch", {"state": []}, "refetch: state must be one of"),
        ("refetch", {"error": ""}, "refetch: error must be text of 1 to 1000 characters"),
        ("refetch", {"callback": "\ud800"}, "refetch: callback must be text"),
    ],
)
def test_wrong_arguments_are_refused_by_name(operation: str, wrong: Any, told: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(told)):
        check_arguments(Operation(operation), wrong)


@pytest.mark.parametrize(
    ("group", "after"),
    [
        (None, "delete"),
        ("", "delete"),
        ("news", "news delete"),
        ("news,DELETE", "news,DELETE"),
        ("undelete", "undelete delete"),
    ],
)
def test_a_group_gets_the_word_that_pyspider_deletes_by(group: str | None, after: str) -> None:
    assert with_delete(group) == after
    assert "delete" in split_group(after)


# --- selections ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Selection(all=True), ["news_a", "news_b", "shop"]),
        (Selection(names=("shop", "news_a", "shop")), ["news_a", "shop"]),
        (Selection(pattern="news_*"), ["news_a", "news_b"]),
        (Selection(pattern="NEWS_*"), []),
        (Selection(pattern="[ns]*[ap]"), ["news_a", "shop"]),
        (Selection(group="Daily"), ["news_a", "shop"]),
        (Selection(status="STOP"), ["news_b", "shop"]),
        (Selection(owner=0), ["news_a"]),
        (Selection(group="daily", status="STOP"), ["shop"]),
        (Selection(names=("news_a",), status="STOP"), []),
        (Selection(names=("nobody",)), []),
    ],
)
def test_all_that_is_given_must_hold(selection: Selection, chosen: list[str]) -> None:
    assert selection.chosen(ROWS) == chosen


def test_a_selection_in_which_nothing_is_given_is_refused() -> None:
    for nothing in (Selection(), Selection(names=()), Selection(pattern="", group="")):
        with pytest.raises(BadRequest, match="no projects are named"):
            nothing.check()
    for something in (Selection(all=True), Selection(owner=0), Selection(pattern="*")):
        something.check()


@pytest.mark.parametrize("name", ["pattern", "group"])
def test_what_cannot_be_stored_is_no_selection(name: str) -> None:
    selection = Selection.parse({name: "[!\udfff]*"})
    with pytest.raises(BadRequest, match=rf"{name} must be text, not '\[!\\udfff\]\*'"):
        selection.check()


def test_unknown_names_are_told() -> None:
    assert Selection(names=("shop", "b", "a")).unknown(ROWS) == ["b", "a"]


def test_there_is_no_other_status() -> None:
    with pytest.raises(BadRequest, match="no status 'PAUSED'; known are TODO"):
        Selection(status="PAUSED").check()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([], "must be an object"),
        ({"name": "p"}, "a selection has no name; known are names, pattern"),
        ({"names": "p"}, "a selection: names: Expected `array`, got `str`, not 'p'"),
        ({"names": [1]}, "names: Expected `str`, got `int` - at `$[0]`, not [1]"),
        ({"owner": "0"}, "owner: Expected `int | null`, got `str`, not '0'"),
        ({"owner": True}, "got `bool`, not True"),
        ({"all": 1}, "all: Expected `bool`, got `int`, not 1"),
        ({"group": None}, "group: Expected `str`, got `null`, not None"),
        ({"pattern": "a\0"}, "a selection: pattern has the character NUL"),
        ({"names": ["b", "a\0"]}, "a selection: names has the character NUL"),
    ],
)
def test_what_is_no_selection_is_refused_by_name(asked: Any, told: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(told)):
        Selection.parse(asked)


@given(
    st.builds(
        Selection,
        names=st.lists(st.text(max_size=3)).map(tuple),
        pattern=st.text(max_size=3),
        owner=st.none() | st.integers(),
        all=st.booleans(),
    )
)
def test_a_selection_survives_its_plain_form(selection: Selection) -> None:
    assert Selection.parse(selection.given) == selection


# --- progress -----------------------------------------------------------------------------------

NAMES = ["a", "b", "c", "d"]
STOP = {"operation": "stop", "arguments": {}, "projects": NAMES}
DELETE = {"operation": "delete", "arguments": {"wait": False}, "projects": NAMES}


@pytest.mark.parametrize(
    ("work", "progress", "expected"),
    [
        (STOP, Progress(), []),
        (STOP, Progress(at=2), ["a", "b"]),
        (STOP, Progress(at=4, later={"a": ""}, errors={"b": "x"}), ["c", "d"]),
        (DELETE, Progress(stage=0, at=4), []),
        (DELETE, Progress(stage=1, at=2, errors={"a": "x"}), ["b"]),
        (DELETE, Progress(stage=2, at=0, errors={"a": "x"}), ["b", "c", "d"]),
        ({**DELETE, "arguments": {"wait": True}}, Progress(at=1), ["a"]),
    ],
)
def test_what_is_done(work: dict[str, Any], progress: Progress, expected: list[str]) -> None:
    job = Job(work, 0.0, progress=progress.as_dict())

    assert outcome_dict(JobName(500, "b", "a", 0), job)["done"] == expected


def test_a_job_that_failed_as_a_whole_failed_for_all_that_it_had_not_done() -> None:
    progress = Progress(at=3, later={"b": "locked", "c": ""}, errors={"a": "gone"})
    job = Job(STOP, 0.0, progress=progress.as_dict(), reason="no disk")

    assert failures(job) == {"a": "gone"}
    assert failures(Job(**{**vars(job), "outcome": Outcome.FAILED})) == {
        "a": "gone",
        "b": "locked",
        "c": "no disk",
        "d": "no disk",
    }


@pytest.mark.parametrize("letter", ["x", "\U0001f577", "\x00"])
def test_any_report_fits_a_transaction_and_what_was_cut_says_so(letter: str) -> None:
    rng = random.Random(1)  # noqa: S311 - no secret
    names = ["".join(rng.choices(string.ascii_letters, k=64)) for _ in range(2000)]
    reasons = ["".join(rng.choices(letter + "\u4e00\u4e01\u0001", k=REASON_LIMIT)) for _ in names]
    progress = Progress(
        0, len(names), {}, dict(zip(names, reasons, strict=True)), {n: rng.random() for n in names}
    )
    work = {"operation": "delete", "arguments": {}, "projects": names}

    job = Job(work, 0.0, progress=progress.as_dict())

    assert len(job.encode()) <= TRANSACTION_LIMIT
    assert Job.decode(job.encode()) == job
    assert all(reason.endswith(CUT) for reason in Progress.parse(job.progress).errors.values())
    assert list(Progress.parse(job.progress).errors) == names


def test_short_reasons_are_kept_beside_long_ones() -> None:
    errors = {**{f"p{i}": "x" * 200 for i in range(2000)}, "short": "gone"}

    told = Progress(errors=errors).as_dict()["errors"]

    assert told["short"] == "gone"
    assert told["p7"].endswith(CUT)
    assert Progress(errors={"p": "x" * 200}).as_dict()["errors"] == {"p": "x" * 200}


@pytest.mark.parametrize(
    "note", [{}, {"total": "many"}, {"total": 2, "arguments": None}, {"user": 7}, {"asked": []}]
)
def test_a_batch_whose_note_or_jobs_are_none_is_told_all_the_same(note: dict[str, Any]) -> None:
    jobs = [
        Job(work, 0.0, progress=progress, outcome=outcome)
        for work in ({}, {"projects": 7}, {**STOP, "arguments": None}, {**STOP, "projects": [1]})
        for progress in ({}, {"at": "far"}, {"later": 7}, {"errors": {"a": None}})
        for outcome in (Outcome.DONE, Outcome.FAILED)
    ]
    places: dict[JobState, dict[JobName, Job]] = {state: {} for state in JobState}
    places[JobState.DONE] = {JobName(500, "b", "p", n): job for n, job in enumerate(jobs)}
    batch = Batch("b", BatchRecord(note, 5.0, len(jobs), len(jobs)), places)

    assert batch_dict(batch)["id"] == "b"
    assert ended_event(batch, 1.0).encode()
    for name, job in places[JobState.DONE].items():
        assert outcome_dict(name, job)["batch"] == "b"


# --- batches ------------------------------------------------------------------------------------


def a_batch(*jobs: Job, expected: int | None = None, cancelled: bool = False) -> Batch:
    total = sum(len(job.work["projects"]) for job in jobs)
    note = {"operation": "stop", "arguments": {}, "user": "ann", "total": total}
    count = len(jobs) if expected is None else expected
    record = BatchRecord(note, 5.0, expected=count, put=count, cancelled=cancelled)
    places: dict[JobState, dict[JobName, Job]] = {state: {} for state in JobState}
    for number, job in enumerate(jobs):
        state = JobState.RUNNING if job.claimant else JobState.PENDING
        state = JobState.DONE if job.outcome else state
        places[state][JobName(500, "b", "p", number)] = job
    return Batch("b", record, places)


def a_job(at: int = 0, errors: dict[str, str] | None = None, **fields: Any) -> Job:
    return Job(STOP, 0.0, progress=Progress(at=at, errors=errors or {}).as_dict(), **fields)


DONE, FAILED, CANCELLED = Outcome.DONE, Outcome.FAILED, Outcome.CANCELLED


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (a_batch(a_job(), a_job()), ("pending", 0, 0, 8)),
        (a_batch(a_job(at=1, claimant="/m"), a_job()), ("running", 1, 0, 7)),
        (a_batch(a_job(at=4, outcome=DONE), a_job()), ("running", 4, 0, 4)),
        (a_batch(a_job(at=4, outcome=DONE)), ("done", 4, 0, 0)),
        (a_batch(a_job(4, {"a": "x"}, outcome=DONE)), ("failed", 3, 1, 0)),
        (a_batch(a_job(2, {"a": "x"}, outcome=FAILED, reason="y")), ("failed", 1, 3, 0)),
        (a_batch(a_job(2, outcome=CANCELLED), cancelled=True), ("cancelled", 2, 0, 2)),
    ],
)
def test_a_batch_is_the_sum_of_its_jobs(batch: Batch, expected: tuple[Any, ...]) -> None:
    told = batch_dict(batch)
    assert (told["state"], told["done"], told["failed"], told["remaining"]) == expected
    assert told["done"] + told["failed"] + told["remaining"] == told["total"]


def test_errors_are_shown_up_to_a_limit_and_all_counted() -> None:
    names = [f"p{number}" for number in range(ERRORS_SHOWN + 5)]
    progress = Progress(at=len(names), errors=dict.fromkeys(names, "gone"))
    work = {**STOP, "projects": names}
    job = Job(work, 0.0, progress=progress.as_dict(), outcome=DONE)

    told = batch_dict(a_batch(job))

    assert (told["failed"], len(told["errors"])) == (len(names), ERRORS_SHOWN)
