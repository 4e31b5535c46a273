"""Names and records of jobs survive the way there and back; where a job goes next."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import BadMessage, BatchTaken
from pyspider_zk.jobs.model import (
    GROUP_LIMIT,
    Batch,
    BatchRecord,
    Claimant,
    Job,
    JobName,
    JobRules,
    JobState,
    Outcome,
    batch_id_of,
    check_batch_id,
    check_priority,
    name_prefix,
    quoted_whole,
)
from pyspider_zk.jobs.rules import (
    after_death,
    after_failure,
    after_return,
    claimed,
    digest_of,
    fitting,
    forgettable,
    is_due,
    place_of,
)
from pyspider_zk.jobs.transactions import JobTree, put_steps

# What pyspider allows in a project's name, from all of Unicode.
word = st.characters(exclude_categories=["Cs"]).filter(lambda c: re.fullmatch(r"\w", c))
projects = st.text(word, min_size=1, max_size=64)
groups = st.text(min_size=1, max_size=GROUP_LIMIT) | st.text(
    ".:-/%\x00\x01\x1f\x7f\x9f\ue000\uffff\U0001f600Жß" + string.digits,
    min_size=1,
    max_size=40,
)
sequences = st.integers(-(2**31), 2**31 - 1)
names = st.builds(JobName, st.integers(0, 999), groups, projects, sequences)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8
)
mappings = st.dictionaries(st.text(), json_values, max_size=4)
jobs = st.builds(
    Job,
    work=mappings,
    created=st.floats(0, 1e10),
    attempts=st.integers(0, 9),
    claims=st.integers(0, 9),
    claimant=st.text(),
    cancelled=st.booleans(),
    progress=mappings,
    reason=st.text(),
    outcome=st.none() | st.sampled_from(Outcome),
)

REFUSED_BY_ZOOKEEPER = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
JOB = Job({"names": ["a"]}, 1.0)
ME = Claimant("/c/me")


@given(names)
def test_a_name_survives(name):
    assert JobName.parse(str(name)) == name


@given(names)
def test_a_name_is_one_that_zookeeper_takes(name):
    text = str(name).encode("utf-16-be", "surrogatepass")
    as_java_sees_it = [text[i : i + 2] for i in range(0, len(text), 2)]

    assert not any(
        REFUSED_BY_ZOOKEEPER.match(unit.decode("utf-16-be", "surrogatepass"))
        for unit in as_java_sees_it
        if unit[0] not in range(0xD8, 0xE0)
    )
    assert not any(unit[0] in range(0xD8, 0xE0) for unit in as_java_sees_it)


@given(groups)
def test_a_batch_survives_as_a_whole_name(group):
    assert batch_id_of(quoted_whole(group)) == group
    assert quoted_whole(group) not in (".", "..")


@pytest.mark.parametrize("name", ["%ED%A0%80", "%FF", "%41", ".", "a%2fb"])
def test_what_is_no_name_of_a_batch_is_refused_and_shown(name):
    with pytest.raises(BadMessage) as refusal:
        batch_id_of(name)

    assert repr(name) in str(refusal.value)


@given(names)
def test_a_job_has_a_key_that_every_database_takes(name):
    assert len(name.key) <= 64
    assert name.key == JobName.parse(str(name)).key
    assert name.key != name._replace(project="another").key


def test_the_jobs_of_a_batch_are_found_by_the_beginning_of_their_keys():
    batch = "0123456789abcdef" * 2
    assert JobName(500, batch, "documentation", 12).key.startswith(f"{batch}-")


def test_a_name_is_what_the_recipe_says():
    assert str(JobName(500, "nightly", "demo", 12)) == "entry-500-nightly:demo-0000000012"
    assert str(JobName(7, "a/b:c-d%", "demo", -1)) == "entry-007-a%2Fb:c-d%25:demo--000000001"
    assert JobName.parse("entry-007-x:p--2147483648").sequence == -(2**31)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "entry-500-nightly:demo",
        "entry-5-g:p-0000000001",
        "entry-500-:p-0000000001",
        "entry-500-g:-0000000001",
        "entry-500-g:p-1",
        "entry-500-g:p-00000000001",
        "entry-500-a/b:p-0000000001",
        "entry-500-%41:p-0000000001",
        "entry-500-g:p-\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661",
        "lock-500-g:p-0000000001",
    ],
)
def test_what_is_no_name_of_a_job_is_refused_and_shown(text):
    with pytest.raises(BadMessage) as refusal:
        JobName.parse(text)

    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("half", ["%ED%A0%80", "%ED%BF%BF", "%FF"])
@pytest.mark.parametrize("name", ["entry-500-{}:p-0000000001", "entry-500-g:{}-0000000001"])
def test_a_name_with_half_of_a_character_is_refused(name, half):
    with pytest.raises(BadMessage, match=half):
        JobName.parse(name.format(half))


def test_the_highest_priority_comes_first_then_the_oldest():
    expected = [
        JobName(900, "b", "p", 5),
        JobName(500, "z", "p", 1),
        JobName(500, "a", "p", 2**31 - 1),
        JobName(500, "a", "p", -(2**31)),
        JobName(500, "a", "p", -1),
        JobName(0, "a", "p", 0),
    ]
    texts = map(str, reversed(expected))

    assert sorted(map(JobName.parse, texts), key=lambda name: name.rank) == expected


@given(sequences.filter(lambda number: number != -1))
def test_the_next_sequence_is_younger(number):
    following = -(2**31) if number == 2**31 - 1 else number + 1

    assert JobName(1, "g", "p", number).rank < JobName(1, "g", "p", following).rank


@pytest.mark.parametrize("batch", ["", "x" * (GROUP_LIMIT + 1), None, 7])
def test_what_is_no_batch_id_is_refused(batch):
    with pytest.raises(BadMessage, match="1 to 200 characters"):
        check_batch_id(batch)


def test_half_of_a_character_is_no_batch_id():
    with pytest.raises(BadMessage, match="half of a character"):
        check_batch_id("nightly-\ud800")


@pytest.mark.parametrize("priority", [-1, 1000, "7", 1.5, None])
def test_what_is_no_priority_is_refused(priority):
    with pytest.raises(BadMessage, match="from 0 to 999"):
        check_priority(priority)


@given(jobs)
def test_a_job_survives(job):
    assert Job.decode(job.encode()) == job


def test_a_large_job_is_kept_small():
    job = Job({"names": [f"project_{i}" for i in range(1000)]}, 1.0)

    assert len(job.encode()) < 5_000
    assert Job.decode(job.encode()) == job


def test_keys_of_a_newer_version_are_ignored():
    newer = {**json.loads(JOB.encode()), "invented_later": 1}

    assert Job.decode(json.dumps(newer).encode()) == JOB


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b"no", b"{}", b'{"work":{},"created":1,"outcome":"odd"}']
)
def test_what_is_no_job_is_refused(data):
    with pytest.raises(BadMessage):
        Job.decode(data)


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"7"])
def test_what_is_no_batch_is_refused(data):
    with pytest.raises(BadMessage):
        BatchRecord.decode(data)


# --- where a job goes next ----------------------------------------------------------------------


def test_a_job_that_fails_pauses_longer_each_time_and_ends_after_the_last_try():
    rules = JobRules(tries=4, pauses=(1.0, 5.0))
    job, paused = JOB, []
    for _ in range(3):
        job = after_failure(claimed(job, ME), 100.0, rules, "no luck")
        assert place_of(job) is JobState.PENDING
        paused.append(job.not_before - 100.0)
    job = after_failure(claimed(job, ME), 100.0, rules, "no luck")

    assert paused == [1.0, 5.0, 5.0]
    assert (job.outcome, job.reason, job.ended) == (Outcome.FAILED, "no luck", 100.0)
    assert place_of(job) is JobState.DONE


def test_a_pause_ends():
    job = after_failure(claimed(JOB, ME), 100.0, JobRules(pauses=(5.0,)), "no luck")

    assert [is_due(job, now) for now in (104.9, 105.0)] == [False, True]


def test_a_death_costs_no_try_and_no_pause_but_there_may_be_only_so_many():
    rules = JobRules(tries=1, deaths=3)
    job, places = JOB, []
    for _ in range(3):
        job = after_death(claimed(job, ME), 100.0, rules)
        places.append(place_of(job))

    assert places == [JobState.PENDING, JobState.PENDING, JobState.DONE]
    assert (job.outcome, job.attempts) == (Outcome.FAILED, 0)
    assert "3 claimants died" in job.reason


@pytest.mark.parametrize(
    "after",
    [
        after_return,
        lambda job, now: after_failure(job, now, JobRules(tries=1), "no luck"),
        lambda job, now: after_death(job, now, JobRules(deaths=1)),
    ],
    ids=["returned", "failed", "died"],
)
def test_a_cancelled_job_does_not_come_back(after):
    job = after(Job({}, 1.0, cancelled=True, claimant="/c/me", claims=1), 100.0)

    assert (job.outcome, place_of(job)) == (Outcome.CANCELLED, JobState.DONE)


# --- batches ------------------------------------------------------------------------------------


def sizes_of(count: int, size: int) -> list[tuple[str, bytes]]:
    return [(name_prefix(500, "b", f"p{i}"), b"x" * size) for i in range(count)]


@given(st.integers(1, 300), st.integers(0, 20_000))
def test_what_fits_is_below_the_limit_and_never_nothing(count, size):
    part = fitting(sizes_of(count, size), 512 * 1024)

    assert part
    assert len(part) == 1 or sum(len(name) + len(data) for name, data in part) <= 512 * 1024


def test_jobs_are_put_in_several_transactions_each_once():
    tree, jobs = JobTree("/q"), sizes_of(100, 20_000)
    found, put, turns = None, [], 0
    fresh = BatchRecord({}, 1.0, len(jobs))
    while steps := put_steps(tree, "b", fresh, found, jobs):
        found = (BatchRecord.decode(steps[0].data), turns)
        put += [step.path.rpartition("/")[2] for step in steps[1:]]
        turns += 1

    assert put == [name for name, _ in jobs]
    assert turns == 4


def test_a_batch_that_was_begun_with_other_jobs_is_not_completed():
    begun = BatchRecord({}, 1.0, 2, put=1, digest=digest_of([("a", {}), ("b", {})]))
    other = BatchRecord({}, 1.0, 2, digest=digest_of([("a", {}), ("c", {})]))

    with pytest.raises(BatchTaken, match="other jobs"):
        put_steps(JobTree("/q"), "b", other, (begun, 0), sizes_of(2, 10))


def test_a_batch_has_ended_when_all_that_was_put_is_done():
    def batch(record: BatchRecord, done: int, pending: int = 0) -> Batch:
        places = {JobState.DONE: done, JobState.PENDING: pending, JobState.RUNNING: 0}
        return Batch(
            "b",
            record,
            {
                state: {JobName(1, "b", "p", n): JOB for n in range(count)}
                for state, count in places.items()
            },
        )

    assert batch(BatchRecord({}, 1.0, 2, put=2), done=2).ended
    assert not batch(BatchRecord({}, 1.0, 2, put=2), done=1, pending=1).ended
    assert not batch(BatchRecord({}, 1.0, 2, put=2), done=1).ended
    assert not batch(BatchRecord({}, 1.0, 3, put=2), done=2).ended
    assert batch(BatchRecord({}, 1.0, 3, put=2, cancelled=True), done=2).ended


def records(count: int, **fields: object) -> dict[str, BatchRecord]:
    """Return batches b0, b1 ... the newest first."""
    return {f"b{n}": BatchRecord({}, 100.0 - n, 1, **{"put": 1, **fields}) for n in range(count)}


def test_the_oldest_batches_beyond_the_limits_are_forgotten_first():
    done = {f"b{n}": 10 for n in range(5)}

    assert forgettable(records(5), done, set(), 0.0, JobRules(keep_batches=3)) == ["b4", "b3"]
    assert forgettable(records(5), done, set(), 0.0, JobRules(keep_jobs=25)) == ["b4", "b3", "b2"]
    assert forgettable(records(5), done, set(), 0.0, JobRules()) == []


def test_what_is_not_done_and_the_newest_are_kept():
    rules = JobRules(keep_batches=0, keep_jobs=0)

    assert forgettable(records(3), {}, {"b2"}, 0.0, rules) == ["b1"]


def test_a_batch_that_nobody_completes_is_forgotten_after_a_day():
    rules = JobRules(keep_batches=0)
    half = records(2, put=0)

    assert forgettable(half, {}, set(), 99.0 + 86_400.0, rules) == []
    assert forgettable(half, {}, set(), 99.1 + 86_400.0, rules) == ["b1"]


def test_done_jobs_without_a_batch_are_forgotten_first():
    rules = JobRules(keep_batches=1)
    done = {"b1": 1, "lost": 1, "busy": 1}

    assert forgettable(records(2), done, {"busy"}, 0.0, rules) == ["lost", "b1"]
