"""The Python client at a real cluster."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError, SessionExpiredError

from pyspider_zk import client as client_module
from pyspider_zk.client import BatchStatus, Client, Logged, Project, Route
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.records import Phase
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import (
    BadMessage,
    BadRequest,
    Conflict,
    NotFound,
    Refused,
    TimedOut,
    Unavailable,
)
from pyspider_zk.projects.slots import slot_of
from tests.support.connected import connected
from tests.support.failing_tasks import store_failures
from tests.support.live_cluster import LiveCluster, living
from tests.support.zk_faults import Refusing

pytestmark = pytest.mark.zk

Eventually = Callable[..., None]


@pytest.fixture
def cluster(
    tmp_path: Path, cluster_settings: Settings, eventually: Eventually
) -> Iterator[LiveCluster]:
    """Give a cluster of three projects and a scheduler."""
    with living(LiveCluster(tmp_path, cluster_settings), eventually) as made:
        yield made


@pytest.fixture
def client(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Give a client that was told the addresses as a text."""
    monkeypatch.setenv("PYSPIDER_ZK_SECRET", cluster.settings.secret)
    with Client(f"{cluster.settings.hosts}{cluster.settings.root}") as made:
        yield made


def rows(cluster: LiveCluster) -> dict[str, Any]:
    return {row["name"]: row for row in cluster.database("project").get_all()}


OPERATIONS: list[tuple[Callable[[Client], BatchStatus], str, Any]] = [
    (lambda client: client.start(names=["b"]), "status", "RUNNING"),
    (lambda client: client.stop(names=["b"]), "status", "STOP"),
    (lambda client: client.rate(2.5, 7, names=["b"]), "rate", 2.5),
    (lambda client: client.rate(2.5, 7, names=["b"]), "burst", 7),
    (lambda client: client.group("weekly", pattern="b"), "group", "weekly"),
    (lambda client: client.status("DEBUG", names="b"), "status", "DEBUG"),
    (lambda client: client.restart(names=["b"], status="STOP"), "status", "RUNNING"),
]


@pytest.mark.parametrize(("ask", "column", "value"), OPERATIONS)
def test_what_is_asked_for_is_done(
    client: Client, cluster: LiveCluster, ask: Any, column: str, value: Any
) -> None:
    done = client.wait(ask(client).id)
    assert (done.state, done.total, done.done, done.ended) == ("done", 1, 1, True)
    assert rows(cluster)["b"][column] == value
    assert rows(cluster)["c"] == {**rows(cluster)["c"], "status": "STOP", "rate": 1}


def test_a_failed_task_is_fetched_again(client: Client, cluster: LiveCluster) -> None:
    tasks = cluster.database("task")
    for taskid, callback in (("one", "page"), ("two", "page"), ("three", "list")):
        row = {"url": "u", "status": tasks.FAILED, "process": {"callback": callback}}
        tasks.insert("a", taskid, row)
    batch = client.wait(client.refetch(names="a", tasks=["one", "three"], callback="page").id)
    assert (batch.state, batch.arguments["tasks"]) == ("done", ["one", "three"])
    assert tasks.status_count("a") == {tasks.ACTIVE: 1, tasks.FAILED: 2}
    assert client.wait(client.refetch(names="a").id).state == "done"
    assert tasks.status_count("a") == {tasks.ACTIVE: 3}


def test_events_are_found_the_latest_first(client: Client, eventually: Eventually) -> None:
    batches = [client.wait(each(names="a").id).id for each in (client.stop, client.start)]

    def archived() -> bool:
        return len(client.find_events(kind="batch").events) == len(batches)

    eventually(archived)
    found = client.find_events(kind="batch", group="orders")
    assert [event.data["batch"] for _, event in found.events] == batches[::-1]
    assert found.missing == ""
    (stopped,) = client.find_events(found.events[0], kind="batch").events
    assert stopped == found.events[1]
    assert client.find_events(q="stop of", kind="batch").events == [stopped]
    assert client.find_events(limit=0, kind="batch").events == []
    assert client.find_events(until=stopped[1].at, since=stopped[1].at).events == []
    with pytest.raises(BadRequest, match="a filter of events has no name; known are group"):
        client.find_events(name="x")  # type: ignore[call-arg]


def test_failures_are_listed_and_those_of_a_kind_are_fetched_again(
    client: Client, cluster: LiveCluster
) -> None:
    assert client.failures() == client.failed_tasks() == []
    tasks = cluster.database("task")
    store_failures(tasks, "a", "KeyError: 'title'", "one", "two")
    store_failures(tasks, "b", "HTTP 404: Not Found", "three")

    assert [(each.kind, each.tasks) for each in client.failures()] == [
        ("KeyError: 'title'", 2),
        ("HTTP 404: Not Found", 1),
    ]
    assert [each.kind for each in client.failures(1, 1)] == ["HTTP 404: Not Found"]
    latest, *_ = client.failed_tasks(project="a")
    assert (latest.taskid, latest.is_given_up) == ("two", True)
    assert [each.taskid for each in client.failed_tasks(latest, project="a")] == ["one"]

    client.wait(client.refetch(names="a", kind="KeyError: 'title'", url="/ONE").id)
    assert tasks.status_count("a") == {tasks.ACTIVE: 1, tasks.FAILED: 1}
    client.wait(client.refetch(names="a", kind="KeyError: 'title'", error="no such").id)
    assert tasks.status_count("a") == {tasks.ACTIVE: 1, tasks.FAILED: 1}
    batch = client.wait(client.refetch(names="a", kind="KeyError: 'title'").id)
    assert batch.state == "done"
    assert tasks.status_count("a") == {tasks.ACTIVE: 2}
    assert [each.project for each in client.failed_tasks()] == ["b"]
    with pytest.raises(BadRequest, match="Expected `int"):
        client.failures(status_code="x")  # type: ignore[arg-type]


def test_tasks_are_searched_in_all_projects(client: Client, cluster: LiveCluster) -> None:
    assert list(client.tasks()) == []
    names = [f"t{number:03}" for number in range(150)]  # more than one answer has
    store_failures(cluster.database("task"), "a", "KeyError: 'title'", *names)
    store_failures(cluster.database("task"), "b", "KeyError: 'title'", "one")
    assert [each.taskid for each in client.tasks()] == [*names, "one"]
    (found,) = client.tasks(url="/ONE", state="FAILED")
    assert (found.project, found.url, found.state) == ("b", "http://site.example/one", "FAILED")
    with pytest.raises(BadRequest, match="Invalid enum value 'DONE'"):
        next(client.tasks(state="DONE"))  # type: ignore[typeddict-item]


def test_a_deleted_project_is_gone(client: Client, cluster: LiveCluster) -> None:
    batch = client.delete(names=["b", "c"], user="ann", priority=900)
    assert client.wait(batch.id).state == "done"
    assert list(rows(cluster)) == ["a"]
    assert client.batch(batch.id).user == "ann"


def test_a_project_that_waits_for_its_deletion_is_stopped(
    client: Client, cluster: LiveCluster
) -> None:
    client.wait(client.delete(names=["a"], wait=True).id)
    assert rows(cluster)["a"]["status"] == "STOP"
    assert "delete" in rows(cluster)["a"]["group"]


def test_failures_are_told_and_can_be_tried_again(client: Client) -> None:
    batch = client.wait(client.run(names=["b"]).id)
    assert (batch.state, batch.failed) == ("failed", 1)
    assert list(batch.errors) == ["b"]
    again = client.wait(client.retry(batch.id).id)
    assert (again.operation, again.state) == ("run", "failed")
    assert [each.id for each in client.batches()] == [again.id, batch.id]
    assert [each.id for each in client.batches(offset=1, limit=1)] == [batch.id]


def test_asking_twice_with_one_id_is_asking_once(client: Client) -> None:
    first = client.stop(names=["b"], batch="mine")
    assert client.stop(names=["b"], batch="mine").created == first.created
    with pytest.raises(Conflict, match="'mine'"):
        client.stop(names=["c"], batch="mine")


def test_a_plan_changes_nothing(client: Client, cluster: LiveCluster) -> None:
    plan = client.plan("run", all=True)
    assert (plan.count, plan.names) == (3, ["a", "b", "c"])
    assert "not RUNNING or DEBUG" in plan.faults[0]
    assert client.batches() == []
    assert rows(cluster)["a"]["status"] == "RUNNING"


def test_a_plan_that_holds_no_more_is_not_carried_out(client: Client, cluster: LiveCluster) -> None:
    plan = client.plan("delete", status="STOP").digest
    cluster.project("newcomer", status="STOP")
    with pytest.raises(Conflict, match="look again"):
        client.delete(status="STOP", plan=plan)
    assert client.batches() == []


@pytest.mark.parametrize(
    ("asked", "culprit"),
    [
        ({"names": ["nobody"]}, "nobody"),
        ({}, "no projects"),
        ({"patern": "x"}, "patern"),
        ({"pattern": "\ud800"}, "pattern"),
        ({"names": [], "status": "STOP"}, "list of names is empty"),
        ({"pattern": "", "status": "STOP"}, "selection: pattern: .* not ''"),
        ({"pattern": "*a" * 600}, "selection: pattern: .* length <= 1000"),
        ({"group": "", "status": "STOP"}, "selection: group: .* not ''"),
        ({"pattern": "*", "status": ""}, "selection: status: .* not ''"),
    ],
)
def test_a_wrong_request_is_refused_by_name(client: Client, asked: Any, culprit: str) -> None:
    with pytest.raises(BadRequest, match=culprit):
        client.start(**asked)


@pytest.mark.parametrize("empty", [{"tasks": []}, {"error": ""}, {"state": ""}])
def test_nothing_to_choose_tasks_by_is_not_everything(client: Client, empty: Any) -> None:
    (name,) = empty
    with pytest.raises(BadRequest, match=f"refetch: {name} must be"):
        client.refetch(names="a", **empty)


def test_those_that_name_no_callback_are_not_everything(client: Client) -> None:
    asked = client.refetch(names="a", callback="")
    assert asked.arguments["callback"] == ""


def test_what_there_is_not_is_not_found(client: Client) -> None:
    for ask in (client.batch, client.cancel, client.retry, client.wait):
        with pytest.raises(NotFound, match="'none'"):
            ask("none")


def test_following_ends_with_the_batch(client: Client) -> None:
    seen = list(client.follow(client.start(all=True).id))
    assert seen[-1].state == "done"
    assert [each.done for each in seen] == sorted(each.done for each in seen)


def test_projects_are_filtered_sorted_and_paged(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    assert names(client.projects()) == ["a", "b", "c"]
    assert names(client.projects("-name", offset=1)) == ["b", "a"]
    assert names(client.projects(status="STOP", limit=1)) == ["b"]
    assert client.projects(status="STOP", limit=1).total == 2
    assert names(client.projects(owner=7)) == []
    assert names(client.projects(owner=0)) == ["a", "b", "c"]
    assert isinstance(client.projects().items[0], Project)


def names(found: Any) -> list[str]:
    return [project.name for project in found.items]


def test_a_route_names_the_owner(client: Client, cluster: LiveCluster) -> None:
    found = client.route("a")
    assert found.slot == slot_of("a", cluster.settings.slots)
    assert (found.owner, found.phase, found.next) == (0, Phase.OWNED, None)
    assert found.address
    with pytest.raises(BadMessage, match="a-b"):
        client.route("a-b")


def test_events_are_read_and_followed(client: Client, cluster: LiveCluster) -> None:
    known = list(client.events())
    assert "joined" in [logged.event.kind for logged in known]
    followed = client.events(known[-1].sequence, follow=True)
    with connected(cluster.settings) as connection:
        log = EventLog(connection, Tree(cluster.settings.root))
        written = [
            Event("batch", f"number {number}", 1.0, "ann", {"n": number}) for number in range(3)
        ]
        for event in written:
            log.append(event)
    seen = [logged for logged in itertools.islice(followed, 3) if isinstance(logged, Logged)]
    assert [logged.event for logged in seen] == written
    assert [logged.event.text for logged in client.events(limit=1)] == ["number 2"]


# -- who answers -----------------------------------------------------------------------------


def test_another_scheduler_is_asked_if_one_does_not_answer(
    client: Client, cluster: LiveCluster, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = client_module.call

    def deaf(member: Any, *args: Any, **kwargs: Any) -> Any:
        """Let the first scheduler do what it is asked for, and its answer be lost."""
        asked.append(member.address)
        answer = real(member, *args, **kwargs)
        if len(asked) == 1:
            raise ConnectionResetError("lost")
        return answer

    with cluster.scheduler():
        eventually(lambda: len(client._directory.members()) == 2)
        eventually(lambda: client.batches() == [])
        monkeypatch.setattr(client_module, "call", deaf)
        batch = client.stop(names=["b"])
        assert len(set(asked)) == 2
        assert [each.id for each in client.batches()] == [batch.id]


def test_the_scheduler_that_answered_is_asked_first_from_then_on(
    client: Client, cluster: LiveCluster, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = client_module.call

    def call(member: Any, *args: Any, **kwargs: Any) -> Any:
        """Reach all schedulers but the first that is asked."""
        asked.append(member.address)
        if member.address == asked[0]:
            raise ConnectionResetError("lost")
        return real(member, *args, **kwargs)

    with cluster.scheduler():
        eventually(lambda: len(client._directory.members()) == 2)
        monkeypatch.setattr(client_module, "call", call)
        for _ in range(3):
            client.batches()
    assert len(asked) == 4
    assert asked.count(asked[0]) == 1


def test_who_gets_no_answer_learns_what_the_batch_would_be(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = client_module.call

    def lossy(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise ConnectionResetError("lost")

    monkeypatch.setattr(client_module, "call", lossy)
    with pytest.raises(Unavailable, match="if it was accepted, it is batch") as told:
        client.stop(names=["b"])
    monkeypatch.undo()
    assert client.batch(str(told.value).rpartition(" ")[2]).operation == "stop"


@pytest.mark.parametrize(
    ("ask", "call"),
    [(lambda client: client.batches(), "children"), (lambda client: client.route("a"), "get")],
)
def test_a_session_that_ends_is_told_as_no_answer(client: Client, ask: Any, call: str) -> None:
    refusing = Refusing(client._directory._connection)
    with (
        refusing.refusing(call, SessionExpiredError),
        pytest.raises(Unavailable, match="session expired"),
    ):
        ask(client)


def test_who_is_refused_by_zookeeper_has_asked_nobody(client: Client) -> None:
    refusing = Refusing(client._directory._connection)
    with refusing.refusing("children", NoAuthError), pytest.raises(Refused) as told:
        client.start(names=["b"])
    assert "accepted" not in str(told.value)


def test_without_a_scheduler_it_says_so(tmp_path: Path, cluster_settings: Settings) -> None:
    with LiveCluster(tmp_path, cluster_settings).scheduler():
        pass
    with Client(cluster_settings) as client:
        with pytest.raises(Unavailable, match=r"no scheduler runs at .*: start one$"):
            client.start(all=True)
        assert isinstance(client.route("a"), Route)
        assert client.route("a").owner is None


def test_waiting_has_a_limit(client: Client) -> None:
    batch = client.delete(names=["b"])  # which is not over before late results have come
    with pytest.raises(TimedOut, match="1 of its projects remain"):
        client.wait(batch.id, timeout=0)
    assert client.wait(batch.id).state == "done"
