"""What is asked for becomes jobs, once."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.records import Assignment, Cluster, Member, Meta, Slot
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadRequest, ClusterError, Conflict, NotFound, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.model import Claimant, JobState, Outcome
from pyspider_zk.jobs.operations import Progress
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.projects.selection import Selection
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import connected
from tests.support.zk_faults import Lossy

pytestmark = pytest.mark.zk

SLOTS = 8
ALL = Selection(all=True)
NAMES = [f"p{number}" for number in range(20)]


@pytest.fixture
def projectdb(tmp_path: Path) -> Any:
    made = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    for number, name in enumerate(NAMES):
        row = {"status": "STOP" if number % 2 else "RUNNING", "group": f"g{number % 3}"}
        made.insert(name, {**row, "script": "s", "comments": "", "rate": number, "burst": 3})
    return made


@pytest.fixture
def connection(cluster_settings: Settings) -> Iterator[Connection]:
    with connected(cluster_settings) as connection:
        yield connection


@pytest.fixture
def tree(cluster_settings: Settings) -> Tree:
    return Tree(cluster_settings.root)


@pytest.fixture
def jobs(connection: Connection, tree: Tree) -> JobQueue:
    return JobQueue(connection, tree.jobs)


@pytest.fixture
def events(connection: Connection, tree: Tree) -> EventLog:
    return EventLog(connection, tree)


def cluster() -> Cluster:
    """Return a cluster whose slots belong to member 0, except the last, whose owner died."""
    alive, dead = MemberId(0, "x"), MemberId(1, "y")
    slots = (*[Slot(alive, 1)] * (SLOTS - 1), Slot(dead, 1))
    members = {alive: Member("127.0.0.1:1", "h", 1, "0", 0.0)}
    return Cluster(Meta(SLOTS), Assignment(1, slots), members=members)


@pytest.fixture
def batch_service(projectdb: Any, jobs: JobQueue, events: EventLog) -> BatchService:
    return BatchService(projectdb, jobs, events, cluster, SLOTS)


@pytest.fixture
def claimant(connection: Connection, tree: Tree) -> Claimant:
    return Claimant(connection.create(f"{tree.members}/0-x", ephemeral=True))


Finish = Callable[..., None]


@pytest.fixture
def finish(jobs: JobQueue, claimant: Claimant) -> Finish:
    """Give a function that carries out all jobs that are pending, without doing anything."""

    def finish(errors: dict[str, str] | None = None, outcome: Outcome = Outcome.DONE) -> None:
        for claim in jobs.take(claimant, lambda _: True, room=SLOTS):
            names = claim.job.work["projects"]
            failed = {name: why for name, why in (errors or {}).items() if name in names}
            jobs.finish(claim, outcome, Progress(at=len(names), errors=failed).as_dict())

    return finish


def name_in_slot(start: str, slot: int) -> str:
    """Return a name that begins like that and belongs to a slot."""
    names = (f"{start}{number}" for number in count())
    return next(name for name in names if slot_of(name, SLOTS) == slot)


# --- projects -----------------------------------------------------------------------------------


def test_projects_have_their_slot_and_owner_and_no_script(batch_service: BatchService) -> None:
    page = batch_service.projects.page(Selection(names=("p3",)))

    (row,) = page.items
    slot = slot_of("p3", SLOTS)
    owner = None if slot == SLOTS - 1 else 0
    assert row.pop("updatetime") > 0
    assert row == {
        "name": "p3",
        "group": "g0",
        "status": "STOP",
        "rate": 3,
        "burst": 3,
        "slot": slot,
        "owner": owner,
    }


def test_projects_come_in_pages(batch_service: BatchService) -> None:
    page = batch_service.projects.page(Selection(), sort="-rate", offset=2, limit=3)
    assert [row["name"] for row in page.items] == ["p17", "p16", "p15"]
    assert (page.total, page.offset) == (20, 2)


@pytest.mark.parametrize(
    "sort", ["name", "group", "status", "updatetime", "slot", "owner", "-slot"]
)
def test_projects_come_in_any_order(batch_service: BatchService, projectdb: Any, sort: str) -> None:
    projectdb.update("p1", {"group": None})
    names = [row["name"] for row in batch_service.projects.page(ALL, sort=sort).items]
    assert sorted(names) == sorted(NAMES)
    values = [
        row[sort.removeprefix("-")] for row in batch_service.projects.page(ALL, sort=sort).items
    ]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=sort.startswith("-"))


def test_there_is_no_other_order(batch_service: BatchService) -> None:
    with pytest.raises(BadRequest, match="no order 'script'; known are name"):
        batch_service.projects.page(ALL, sort="script")


def test_a_slot_whose_owner_is_gone_has_none(batch_service: BatchService) -> None:
    gone = {name for name in NAMES if slot_of(name, SLOTS) == SLOTS - 1}
    assert gone
    owned = {row["name"] for row in batch_service.projects.page(Selection(owner=0)).items}
    assert owned == set(NAMES) - gone
    assert batch_service.projects.page(Selection(owner=1)).items == []


def test_a_database_that_is_away_is_said_so(jobs: JobQueue, events: EventLog) -> None:
    class SilentProjects:
        def copy(self) -> Any:
            raise OSError("connection refused")

    batch_service = BatchService(SilentProjects(), jobs, events, cluster, SLOTS)
    with pytest.raises(Unavailable, match="project database"):
        batch_service.submit("stop", ALL)


# --- submitting ---------------------------------------------------------------------------------


def test_a_batch_has_one_job_per_slot_with_all_its_projects(
    batch_service: BatchService, jobs: JobQueue
) -> None:
    told = batch_service.submit("stop", ALL, user="ann", priority=700)

    batch = jobs.batch(told["id"])
    assert batch is not None
    pending = batch.jobs[JobState.PENDING]
    assert len(pending) == len({slot_of(name, SLOTS) for name in NAMES})
    seen = []
    for name, job in pending.items():
        projects = job.work["projects"]
        assert {slot_of(each, SLOTS) for each in projects} == {slot_of(name.project, SLOTS)}
        assert (job.work["operation"], job.work["arguments"]) == ("stop", {})
        assert (name.priority, name.group) == (700, told["id"])
        seen += projects
    assert sorted(seen) == sorted(NAMES)
    assert {key: told[key] for key in ("operation", "user", "state", "total", "remaining")} == {
        "operation": "stop",
        "user": "ann",
        "state": "pending",
        "total": 20,
        "remaining": 20,
    }


def test_a_slot_of_very_many_projects_has_several_jobs_that_fit(
    jobs: JobQueue, events: EventLog, claimant: Claimant
) -> None:
    """What is reported of a job grows with its projects, up to a reason and a version for each."""
    names = [f"{number:04d}{'щ' * 60}" for number in range(4500)]
    row = {"status": "STOP", "group": "", "rate": 1, "burst": 1, "updatetime": 0.0}

    class Rows:
        def copy(self) -> Any:
            return self

        def get_all(self, **_: Any) -> Any:
            return [{**row, "name": name} for name in names]

    batch_service = BatchService(Rows(), jobs, events, cluster, slots=1)
    assert batch_service.plan("delete", ALL)["jobs"] == 5, "128 KiB of names each"

    batch_service.submit("delete", ALL, batch="mine")

    claims = jobs.take(claimant, lambda _: True, room=9)
    assert sorted(name for each in claims for name in each.job.work["projects"]) == names
    for claim in claims:
        projects = claim.job.work["projects"]
        errors = {name: token_hex(100) for name in projects}
        versions = {name: 1e9 + number / 7 for number, name in enumerate(projects)}
        jobs.report(claim, Progress(errors=errors, versions=versions).as_dict())


def test_the_same_id_asked_for_twice_is_one_batch(
    batch_service: BatchService, jobs: JobQueue, projectdb: Any, finish: Finish
) -> None:
    selection = Selection(status="STOP")
    first = batch_service.submit("start", selection, batch="mine")
    finish()
    for name in NAMES:
        projectdb.update(name, {"status": "RUNNING"})  # so that nothing is meant any more

    again = batch_service.submit("start", selection, batch="mine")

    assert (again["total"], again["state"]) == (first["total"], "done")
    assert jobs.names(JobState.PENDING) == []
    assert batch_service.batches().total == 1


@pytest.mark.parametrize(
    ("operation", "selection", "arguments"),
    [
        ("start", ALL, {}),
        ("stop", Selection(names=("p1",)), {}),
        ("delete", ALL, {}),
    ],
)
def test_an_id_that_stands_for_something_else_is_refused(
    batch_service: BatchService, operation: str, selection: Selection, arguments: dict[str, Any]
) -> None:
    batch_service.submit("stop", ALL, batch="mine")
    with pytest.raises(Conflict, match="'mine' stands for another request"):
        batch_service.submit(operation, selection, arguments, batch="mine")


def test_the_order_of_names_does_not_make_another_request(batch_service: BatchService) -> None:
    batch_service.submit("stop", Selection(names=("p1", "p2")), batch="mine")
    batch_service.submit("stop", Selection(names=("p2", "p1")), batch="mine")


@pytest.mark.parametrize(
    ("operation", "selection", "asked", "told"),
    [
        ("paint", ALL, {}, "no operation 'paint'"),
        ("stop", Selection(), {}, "no projects are named"),
        ("stop", Selection(names=("p1", "nobody")), {}, "no project nobody: correct"),
        ("stop", Selection(pattern="x*"), {}, "no project is meant by {'pattern': 'x\\*'}"),
        ("stop", Selection(status="OFF"), {}, "no status 'OFF'"),
        ("rate", ALL, {}, "rate: rate must be a number"),
        ("stop", ALL, {"priority": 1000}, "priority 1000"),
        ("stop", ALL, {"batch": "x" * 201}, "batch id"),
        ("stop", Selection(pattern="[!\ud800]*"), {}, "pattern must be text"),
        ("group", ALL, {"arguments": {"group": "\ud800"}}, "group must be text"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_no_batch(
    batch_service: BatchService,
    operation: str,
    selection: Selection,
    asked: dict[str, Any],
    told: str,
) -> None:
    with pytest.raises(BadRequest, match=told):
        batch_service.submit(operation, selection, **asked)
    assert batch_service.batches().total == 0


def test_a_row_with_a_name_that_pyspider_does_not_allow_refuses_no_batch(
    batch_service: BatchService, jobs: JobQueue, projectdb: Any
) -> None:
    row = {"status": "RUNNING", "group": "", "script": "s", "comments": "", "rate": 1, "burst": 3}
    for slot in range(SLOTS):  # the first of its slot, wherever that is
        projectdb.insert(name_in_slot("-", slot), row)
    assert not batch_service.plan("stop", ALL)["faults"]
    (fault,) = batch_service.plan("start", ALL)["faults"]
    assert fault.startswith("pyspider allows no such names: -")

    told = batch_service.submit("start", ALL, batch="mine")

    assert told["total"] == len(NAMES) + SLOTS
    for name in jobs.names(JobState.PENDING):
        assert re.fullmatch(r"\w+", name.project)
        found = jobs.find(name)
        assert found is not None
        slots = {slot_of(each, SLOTS) for each in found[1].work["projects"]}
        assert slots == {slot_of(name.project, SLOTS)}


def test_a_slot_with_no_other_name_has_its_job_all_the_same(
    batch_service: BatchService, jobs: JobQueue, projectdb: Any
) -> None:
    row = {"status": "RUNNING", "group": "", "script": "s", "comments": "", "rate": 1, "burst": 3}
    projectdb.insert("-", row)
    for name in ("a", "b"):  # asking twice is asking once: the name is the same each time
        batch_service.submit("stop", Selection(names=("-",)), batch=name)
    first, second = jobs.names(JobState.PENDING)
    assert first.project == second.project
    assert slot_of(first.project, SLOTS) == slot_of("-", SLOTS)


def test_of_many_unknown_names_some_are_told(batch_service: BatchService) -> None:
    names = tuple(f"x{number}" for number in range(9))
    with pytest.raises(BadRequest, match="no project x0, x1, x2, x3, x4 and 4 more"):
        batch_service.submit("stop", Selection(names=names))


def test_who_asked_for_what_stands_in_the_event_log_once(
    batch_service: BatchService, events: EventLog, projectdb: Any
) -> None:
    batch_service.submit("rate", ALL, {"rate": 1, "burst": 2}, user="ann", batch="mine")
    batch_service.submit("rate", ALL, {"rate": 1, "burst": 2}, user="ann", batch="mine")

    ((_, event),) = events.read()
    assert (event.kind, event.who) == ("batch", "ann")
    assert event.text == "rate of 20 projects was asked for"
    assert event.data == {
        "batch": "mine",
        "operation": "rate",
        "arguments": {"rate": 1, "burst": 2},
        "total": 20,
        "projects": sorted(row["name"] for row in projectdb.get_all(fields=["name"])),
    }


def test_two_who_ask_for_the_same_at_the_same_time_make_one_batch(
    batch_service: BatchService, events: EventLog, jobs: JobQueue, projectdb: Any
) -> None:
    both = threading.Barrier(2, timeout=20)  # both have found that there is no such batch

    class Meeting:
        def copy(self) -> Any:
            return self

        def get_all(self, **kwargs: Any) -> Any:
            both.wait()
            return projectdb.get_all(**kwargs)

    others = [BatchService(Meeting(), jobs, events, cluster, SLOTS) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: each.submit("stop", ALL, batch="mine"), others))

    assert batch_service.batch("mine")["total"] == len(NAMES)
    assert len(events.read()) == 1


def test_a_batch_whose_reply_was_lost_stands_in_the_event_log(
    projectdb: Any, cluster_settings: Settings, tree: Tree
) -> None:
    connection = Lossy(cluster_settings)
    connection.start()
    connection.lose = 1
    try:
        jobs, events = JobQueue(connection, tree.jobs), EventLog(connection, tree)
        batch_service = BatchService(projectdb, jobs, events, cluster, SLOTS)
        with pytest.raises(Unavailable):
            batch_service.submit("stop", ALL, user="ann", batch="mine")
        batch_service.submit("stop", ALL, user="ann", batch="mine")

        assert [event.who for _, event in events.read()] == ["ann"]
    finally:
        connection.stop()


def test_who_cancels_stands_in_the_event_log_once(
    batch_service: BatchService, events: EventLog
) -> None:
    batch_service.submit("stop", ALL, user="ann", batch="mine")
    batch_service.cancel("mine", user="bob")
    batch_service.cancel("mine", user="bob")

    _, (_, event) = events.read()
    assert (event.kind, event.who) == ("cancel", "bob")
    assert event.text == "batch mine, stop of 20 projects, was to be cancelled"
    assert event.data == {"batch": "mine"}


def test_who_retries_stands_in_the_event_log(
    batch_service: BatchService, events: EventLog, finish: Finish
) -> None:
    batch_service.submit("stop", ALL, user="ann", batch="mine")
    finish({"p3": "locked"})
    again = batch_service.retry("mine", user="bob")["id"]

    _, (_, event) = events.read()
    assert (event.kind, event.who, event.data["batch"]) == ("batch", "bob", again)


# --- planning -----------------------------------------------------------------------------------


def test_a_plan_tells_what_would_be_done_and_does_nothing(batch_service: BatchService) -> None:
    plan = batch_service.plan("run", Selection(names=("p0", "p1", "p3", "nobody")))

    assert plan.pop("digest")
    assert plan == {
        "operation": "run",
        "arguments": {},
        "count": 3,
        "names": ["p0", "p1", "p3"],
        "jobs": len({slot_of(name, SLOTS) for name in ("p0", "p1", "p3")}),
        "faults": [
            "there is no project nobody: correct the names or leave them out",
            "not RUNNING or DEBUG: p1, p3; start them instead",
        ],
        "unknown": ["nobody"],
    }
    assert batch_service.batches().total == 0


def test_what_was_agreed_to_is_done_or_nothing(batch_service: BatchService, projectdb: Any) -> None:
    stopped = Selection(status="STOP")
    plan = batch_service.plan("delete", stopped)["digest"]
    projectdb.update("p0", {"status": "STOP"})

    with pytest.raises(Conflict, match="look again"):
        batch_service.submit("delete", stopped, batch="mine", plan=plan)
    assert batch_service.batches().total == 0

    plan = batch_service.plan("delete", stopped)["digest"]
    first = batch_service.submit("delete", stopped, batch="mine", plan=plan)
    projectdb.update("p0", {"status": "RUNNING"})
    again = batch_service.submit("delete", stopped, batch="mine", plan=plan)  # its reply was lost
    assert (again["id"], again["total"]) == (first["id"], first["total"])


def test_a_plan_without_projects_says_why(batch_service: BatchService) -> None:
    assert batch_service.plan("stop", Selection())["faults"][0].startswith("no projects are named")


# --- batches ------------------------------------------------------------------------------------


def test_batches_come_newest_first_in_pages(batch_service: BatchService) -> None:
    for number in range(4):
        batch_service.submit("stop", ALL, batch=f"b{number}")
    page = batch_service.batches(offset=1, limit=2)
    assert [batch["id"] for batch in page.items] == ["b2", "b1"]
    assert page.total == 4


def test_places_are_listed_once_however_many_batches_there_are(
    batch_service: BatchService, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        batch_service.submit("stop", ALL, batch=f"b{number}")
    listed: list[str] = []
    children = connection.children

    def count_children(path: str, watch: Any = None) -> list[str]:
        listed.append(path)
        return children(path, watch)

    monkeypatch.setattr(connection, "children", count_children)
    assert [batch["total"] for batch in batch_service.batches().items] == [20] * 5

    assert len(listed) == 1 + len(JobState)


def test_the_jobs_of_batches_that_have_ended_are_not_read_again(
    batch_service: BatchService,
    finish: Finish,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for batch in ("old", "new"):
        batch_service.submit("stop", ALL, batch=batch)
        finish({"p3": "locked"})
    batch_service.submit("stop", ALL, batch="running")
    before = batch_service.batches()
    read: list[str] = []
    find_all = connection.find_all

    def note_paths(paths: Sequence[str]) -> list[tuple[bytes, int] | None]:
        read.extend(paths)
        return find_all(paths)

    monkeypatch.setattr(connection, "find_all", note_paths)
    assert batch_service.batches() == before
    assert [batch["state"] for batch in before.items] == ["pending", "failed", "failed"]

    read_jobs = [path for path in read if "/batches/" not in path]
    assert len(read_jobs) == before.items[0]["jobs"]["pending"]


def test_a_batch_of_the_same_id_as_a_forgotten_one_is_told_as_it_is(
    batch_service: BatchService, finish: Finish, jobs: JobQueue, connection: Connection
) -> None:
    batch_service.submit("stop", ALL, batch="mine")
    finish()
    assert batch_service.batches().items[0]["state"] == "done"
    tree = jobs._tree
    for name in jobs.names(JobState.DONE):
        connection.delete(tree.job(JobState.DONE, name))
    connection.delete(tree.batch("mine"))

    batch_service.submit("start", ALL, batch="mine")

    assert batch_service.batches().items[0]["operation"] == "start"


@pytest.mark.parametrize("method", ["batch", "cancel", "retry"])
@pytest.mark.parametrize("unknown", ["nothing", "", "a/b"])
def test_an_unknown_batch_is_not_found(
    batch_service: BatchService, method: str, unknown: str
) -> None:
    with pytest.raises(NotFound):
        getattr(batch_service, method)(unknown)


def test_a_cancelled_batch_does_nothing_more(batch_service: BatchService, jobs: JobQueue) -> None:
    batch_service.submit("stop", ALL, batch="mine")
    told = batch_service.cancel("mine")
    assert (told["state"], told["remaining"]) == ("cancelled", 20)
    assert jobs.names(JobState.PENDING) == []


def test_a_retry_is_for_those_that_failed_and_is_made_once(
    batch_service: BatchService, finish: Finish, jobs: JobQueue
) -> None:
    batch_service.submit("rate", ALL, {"rate": 1, "burst": 2}, batch="mine", priority=900)
    finish({"p3": "locked", "p7": "locked"})
    assert batch_service.batch("mine")["errors"] == {"p3": "locked", "p7": "locked"}

    again = batch_service.retry("mine", user="ann")
    assert batch_service.retry("mine") == again

    assert (again["operation"], again["total"], again["user"]) == ("rate", 2, "ann")
    batch = jobs.batch(again["id"])
    assert batch is not None
    assert {name.priority for name in batch.jobs[JobState.PENDING]} == {900}
    work = [job.work for job in batch.jobs[JobState.PENDING].values()]
    assert sorted(name for each in work for name in each["projects"]) == ["p3", "p7"]
    assert all(each["arguments"] == {"rate": 1, "burst": 2} for each in work)


def test_what_fails_again_can_be_retried_again(batch_service: BatchService, finish: Finish) -> None:
    batch_service.submit("stop", ALL, batch="x" * 200)
    finish({"p3": "locked"})
    again = batch_service.retry("x" * 200)
    finish({"p3": "locked"})
    assert again["id"] != batch_service.retry(again["id"])["id"]


def test_there_is_nothing_to_retry_while_it_goes_on_or_if_all_is_done(
    batch_service: BatchService, finish: Finish
) -> None:
    batch_service.submit("stop", ALL, batch="mine")
    with pytest.raises(BadRequest, match="still at work"):
        batch_service.retry("mine")
    finish()
    with pytest.raises(BadRequest, match="failed for no project"):
        batch_service.retry("mine")


def test_projects_that_are_gone_are_not_retried(
    batch_service: BatchService, finish: Finish, projectdb: Any
) -> None:
    batch_service.submit("stop", ALL, batch="mine")
    finish({"p3": "locked", "p7": "locked"})
    projectdb.drop("p3")
    assert batch_service.retry("mine")["total"] == 1


def test_zookeeper_away_is_said_so(projectdb: Any, cluster_settings: Settings, tree: Tree) -> None:
    nowhere = Connection(replace(cluster_settings, hosts="127.0.0.1:1"), timeout=0.1)
    jobs, events = JobQueue(nowhere, tree.jobs), EventLog(nowhere, tree)
    batch_service = BatchService(projectdb, jobs, events, cluster, SLOTS)
    with pytest.raises(ClusterError):
        batch_service.submit("stop", ALL)
