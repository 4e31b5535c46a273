"""pyspider's databases: one contract, for every backend on a real server."""

import multiprocessing
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.patches.databases import Databases

TASK = {
    "taskid": "t1",
    "project": "p1",
    "url": "http://example.org/?q=%20",
    "status": 1,
    "schedule": {"priority": 3, "exetime": 1.5, "age": None},
    "fetch": {"method": "POST", "data": "a\x00b", "headers": {"Cookie": "é"}},
    "process": {"callback": "on_start"},
    "track": {},
    "lastcrawltime": 1763800000.123456,
}
TEXTS = ["é", "漢字", "\U0001f577 spider", 'it\'s "quoted" `so` \\ %s %(x)s :y ?', "A", "a"]
PROJECTS = ["p", "P", "select", "p_1", "漢字", "x" * 63, "_d", "0", "task", "é"]


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(row["updatetime"], float)
    return {name: value for name, value in row.items() if name != "updatetime"}


# --- tasks --------------------------------------------------------------------------------------


@pytest.fixture
def taskdb(backend: Databases) -> Any:
    return backend.connect("task")


def test_a_task_comes_back_as_it_was_put(taskdb: Any) -> None:
    taskdb.insert("p1", "t1", TASK)
    assert without_times(taskdb.get_task("p1", "t1")) == TASK


def test_a_task_may_have_what_it_needs_only(taskdb: Any) -> None:
    taskdb.insert("p1", "t1", {"url": "u", "status": 1})
    found = taskdb.get_task("p1", "t1", fields=["taskid", "schedule", "track", "lastcrawltime"])
    assert found == {"taskid": "t1", "schedule": {}, "track": {}, "lastcrawltime": None}


def test_what_is_put_is_not_changed(taskdb: Any) -> None:
    task = {"url": "u", "status": 1, "fetch": {"a": 1}}
    taskdb.insert("p1", "t1", task)
    taskdb.update("p1", "t1", task)
    assert task == {"url": "u", "status": 1, "fetch": {"a": 1}}


def test_what_there_is_not_is_none(taskdb: Any) -> None:
    assert taskdb.get_task("nobody", "t1") is None
    assert taskdb.status_count("nobody") == {}
    assert list(taskdb.load_tasks(1, "nobody")) == []
    with pytest.raises(LookupError):
        taskdb.update("nobody", "t1", status=2)
    taskdb.drop("nobody")
    taskdb.insert("p1", "t1", TASK)
    assert taskdb.get_task("p1", "t2") is None


def test_a_task_is_not_inserted_twice(taskdb: Any) -> None:
    taskdb.insert("p1", "t1", TASK)
    with pytest.raises(Exception, match=r"(?i)unique|duplicate") as refused:
        taskdb.insert("p1", "t1", {**TASK, "status": 2})
    assert type(refused.value).__name__ == "IntegrityError"
    assert taskdb.get_task("p1", "t1")["status"] == 1


def test_an_update_changes_its_columns_of_its_task_only(taskdb: Any) -> None:
    for taskid in ("t1", "t2"):
        taskdb.insert("p1", taskid, {**TASK, "taskid": taskid})
    before = taskdb.get_task("p1", "t1")["updatetime"]
    taskdb.update("p1", "t1", {"status": 2}, track={"save": [1]})
    found = taskdb.get_task("p1", "t1")
    assert found["updatetime"] >= before
    assert without_times(found) == {**TASK, "status": 2, "track": {"save": [1]}}
    assert without_times(taskdb.get_task("p1", "t2")) == {**TASK, "taskid": "t2"}
    taskdb.update("p1", "t3", status=2)
    assert taskdb.get_task("p1", "t3") is None


def test_tasks_are_loaded_by_status_of_one_project_or_all(taskdb: Any) -> None:
    for project, taskid, status in (("p1", "a", 1), ("p1", "b", 2), ("p2", "c", 1)):
        taskdb.insert(project, taskid, {"url": "u", "status": status, "schedule": {"x": taskid}})
    assert list(taskdb.load_tasks(1, "p1", ["taskid", "schedule"])) == [
        {"taskid": "a", "schedule": {"x": "a"}}
    ]
    assert [row["project"] for row in taskdb.load_tasks(2, "p1")] == ["p1"]
    assert sorted(row["taskid"] for row in taskdb.load_tasks(1, fields=("taskid",))) == ["a", "c"]
    assert list(taskdb.load_tasks(3)) == []


def test_tasks_of_many_pages_are_loaded_once_each(taskdb: Any) -> None:
    taskdb.ROWS_PER_PAGE = 3
    for number in range(10):
        taskdb.insert("p1", f"t{number}", {"url": "u", "status": 1})
    found = [row["url"] for row in taskdb.load_tasks(1, "p1", ["url"])]
    assert found == ["u"] * 10


def test_one_who_reads_tasks_keeps_nobody_from_changing_them(backend: Databases) -> None:
    reading, writing = backend.connect("task"), backend.connect("task")
    reading.ROWS_PER_PAGE = 2
    for number in range(6):
        reading.insert("p1", f"t{number}", {"url": "u", "status": 1})
    rows = reading.load_tasks(1, "p1", ["taskid"])
    first = next(rows)
    writing._list_project()
    writing.update("p1", first["taskid"], status=2)
    writing.insert("p1", "t9", {"url": "u", "status": 1})
    assert len(list(rows)) >= 5
    rows = reading.load_tasks(1, "p1", ["taskid"])
    next(rows)
    writing.drop("p1")
    assert writing.status_count("p1") == {}


def test_tasks_are_counted_by_status(taskdb: Any) -> None:
    for number, status in enumerate([1, 1, 2, 3, 4, 1]):
        taskdb.insert("p1", f"t{number}", {"url": "u", "status": status})
    assert taskdb.status_count("p1") == {1: 3, 2: 1, 3: 1, 4: 1}


def test_a_dropped_project_is_gone_and_can_come_back(taskdb: Any) -> None:
    taskdb.insert("p1", "t1", TASK)
    taskdb.insert("p2", "t1", TASK)
    taskdb.drop("p1")
    assert set(taskdb.projects) == {"p2"}
    assert taskdb.get_task("p1", "t1") is None
    taskdb.insert("p1", "t2", TASK)
    assert taskdb.status_count("p1") == {1: 1}


def test_ids_that_differ_in_case_only_are_two(taskdb: Any) -> None:
    taskdb.insert("p1", "ab", {"url": "1", "status": 1})
    taskdb.insert("p1", "AB", {"url": "2", "status": 1})
    assert taskdb.get_task("p1", "ab")["url"] == "1"
    assert taskdb.get_task("p1", "AB")["url"] == "2"


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back(taskdb: Any, text: str) -> None:
    taskdb.insert("p1", text, {"url": text, "status": 1, "fetch": {text: text}})
    found = taskdb.get_task("p1", text, ["taskid", "url", "fetch"])
    assert found == {"taskid": text, "url": text, "fetch": {text: text}}
    assert [row["taskid"] for row in taskdb.load_tasks(1, "p1")] == [text]


@pytest.mark.parametrize("size", [70_000, 2_000_000])
def test_large_tasks_are_not_cut(taskdb: Any, size: int) -> None:
    task = {"url": "http://a/" + "é" * size, "status": 1, "fetch": {"data": "x" * size}}
    taskdb.insert("p1", "t1", task)
    assert taskdb.get_task("p1", "t1", list(task)) == task


@pytest.mark.parametrize("project", PROJECTS)
def test_any_name_is_a_project(backend: Databases, project: str) -> None:
    taskdb, resultdb = backend.connect("task"), backend.connect("result")
    taskdb.insert(project, "t1", {"url": "u", "status": 1})
    resultdb.save(project, "t1", "u", 1)
    assert set(taskdb.projects) == set(resultdb.projects) == {project}
    assert backend.connect("task").status_count(project) == {1: 1}
    taskdb.drop(project)
    resultdb.drop(project)
    assert not set(taskdb.projects) | set(resultdb.projects)


@pytest.mark.parametrize(
    "project", ["a b", "a`b", 'a"; DROP TABLE p1; --', "", "a\n", "a.b", "../a"]
)
def test_what_is_no_name_makes_no_table(backend: Databases, project: str) -> None:
    taskdb, resultdb = backend.connect("task"), backend.connect("result")
    taskdb.insert("p1", "t1", TASK)
    for put in (
        lambda: taskdb.insert(project, "t1", {"url": "u", "status": 1}),
        lambda: resultdb.save(project, "t1", "u", 1),
    ):
        with pytest.raises((ValueError, AssertionError)):
            put()
    assert set(taskdb.projects) == {"p1"}
    assert not resultdb.projects


def test_what_another_makes_and_drops_is_seen(backend: Databases) -> None:
    ours, theirs = backend.connect("task"), backend.connect("task")
    theirs.insert("p1", "t1", TASK)
    assert ours.get_task("p1", "t1")["taskid"] == "t1"
    theirs.drop("p1")
    ours._list_project()
    assert ours.get_task("p1", "t1") is None


# --- projects -----------------------------------------------------------------------------------

PROJECT = {
    "name": "p1",
    "group": "g",
    "status": "RUNNING",
    "script": "# é 漢字 \U0001f577\n" + "x" * 100_000,
    "comments": "c" * 2_000,
    "rate": 1.25,
    "burst": 16777217.0,
}


@pytest.fixture
def projectdb(backend: Databases) -> Any:
    return backend.connect("project")


def test_a_project_comes_back_as_it_was_put(projectdb: Any) -> None:
    projectdb.insert("p1", PROJECT)
    assert without_times(projectdb.get("p1")) == PROJECT
    assert projectdb.get("p1", fields=["group", "rate"]) == {"group": "g", "rate": 1.25}
    assert projectdb.get("p2") is None


def test_a_project_is_not_inserted_twice(projectdb: Any) -> None:
    projectdb.insert("p1", PROJECT)
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        projectdb.insert("p1", PROJECT)


def test_an_update_tells_whether_there_is_such_a_project(projectdb: Any) -> None:
    projectdb.insert("p1", PROJECT)
    assert projectdb.update("p1", {"status": "STOP"}, rate=2) == 1
    assert projectdb.update("p2", status="STOP") == 0
    found = projectdb.get("p1")
    assert (found["status"], found["rate"], found["script"]) == ("STOP", 2, PROJECT["script"])


def test_projects_are_listed_and_those_that_changed_since(projectdb: Any) -> None:
    projectdb.insert("p1", PROJECT)
    first = projectdb.get("p1")["updatetime"]
    projectdb.insert("P1", {**PROJECT, "name": "P1"})
    assert {row["name"] for row in projectdb.get_all()} == {"p1", "P1"}
    assert list(projectdb.get_all(fields=["status"])) == [{"status": "RUNNING"}] * 2
    assert {row["name"] for row in projectdb.check_update(first)} == {"p1", "P1"}
    assert list(projectdb.check_update(projectdb.get("P1")["updatetime"] + 1)) == []


def test_a_project_is_dropped(projectdb: Any) -> None:
    projectdb.insert("p1", PROJECT)
    projectdb.drop("p1")
    projectdb.drop("p1")
    assert list(projectdb.get_all()) == []


# --- results ------------------------------------------------------------------------------------


@pytest.fixture
def resultdb(backend: Databases) -> Any:
    return backend.connect("result")


RESULT = {"title": "é \U0001f577", "list": [1, 2.5, None, True], "text": "x" * 100_000}


def test_a_result_comes_back_as_it_was_saved(resultdb: Any) -> None:
    resultdb.save("p1", "t1", "http://a/é", RESULT)
    assert without_times(resultdb.get("p1", "t1")) == {
        "taskid": "t1",
        "url": "http://a/é",
        "result": RESULT,
    }
    assert resultdb.get("p1", "t1", fields=["result"]) == {"result": RESULT}
    assert resultdb.get("p1", "t2") is None
    assert resultdb.get("nobody", "t1") is None


def test_a_result_takes_the_place_of_the_one_before(resultdb: Any) -> None:
    resultdb.save("p1", "t1", "u", 1)
    resultdb.save("p1", "t1", "v", None)
    assert without_times(resultdb.get("p1", "t1")) == {"taskid": "t1", "url": "v", "result": None}
    assert resultdb.count("p1") == 1
    assert resultdb.count("nobody") == 0


def test_the_latest_results_come_first(resultdb: Any) -> None:
    assert list(resultdb.select("nobody")) == []
    for number in range(5):
        resultdb.save("p1", f"t{number}", "u", number)
    resultdb.save("p1", "t0", "u", "again")
    assert [row["result"] for row in resultdb.select("p1")] == ["again", 4, 3, 2, 1]
    some = resultdb.select("p1", fields=["taskid"], offset=1, limit=2)
    assert list(some) == [{"taskid": "t4"}, {"taskid": "t3"}]
    assert [row["taskid"] for row in resultdb.select("p1", offset=4)] == ["t1"]


def test_all_results_are_read_once_each_in_short_reads(backend: Databases) -> None:
    reading, writing = backend.connect("result"), backend.connect("result")
    reading.BYTES_PER_PAGE = 20_000
    texts = {f"t{number:03}": "x" * (number % 7 * 1000) for number in range(100)}
    for taskid, text in texts.items():
        writing.save("p1", taskid, "u", text)

    rows, found = reading.scan("p1"), []
    for count, row in enumerate(rows):
        assert set(row) == {"taskid", "url", "result", "updatetime"}
        found.append(row["taskid"])
        writing.save("p1", row["taskid"], "u", "again")  # nobody keeps it from being written
        writing.save("p1", f"t{99 - count:03}", "u", "again")

    assert sorted(found) == sorted(texts)
    assert writing.count("p1") == 100
    assert list(reading.scan("nobody")) == []


def test_what_is_deleted_while_all_are_read_is_left_out(backend: Databases) -> None:
    reading, dropping = backend.connect("result"), backend.connect("result")
    reading.BYTES_PER_PAGE = 1
    for number in range(10):
        reading.save("p1", f"t{number}", "u", number)
    rows = reading.scan("p1")
    next(rows)
    dropping.drop("p1")
    with pytest.raises(Exception, match=r"(?i)no such table|exist"):
        next(rows)


def test_all_results_take_the_memory_of_few(resultdb: Any) -> None:
    for number in range(200):
        resultdb.save("p1", f"t{number}", "u", "x" * 100_000)
    tracemalloc.start()
    try:
        found = sum(len(row["result"]) for row in resultdb.scan("p1"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 200 * 100_000
    assert most < 5 * 2**20


def test_results_are_dropped(resultdb: Any) -> None:
    resultdb.save("p1", "t1", "u", 1)
    resultdb.drop("p1")
    resultdb.drop("p1")
    assert resultdb.count("p1") == 0
    assert not resultdb.projects


def test_one_who_stops_reading_results_leaves_nothing_behind(resultdb: Any) -> None:
    for number in range(600):
        resultdb.save("p1", f"t{number}", "u", number)
    assert next(resultdb.select("p1"))["result"] == 599
    resultdb.drop("p1")
    assert resultdb.count("p1") == 0


def test_one_who_reads_results_makes_nobody_wait_for_ever(server_backend: Databases) -> None:
    reading, dropping = server_backend.connect("result"), server_backend.connect("result")
    for number in range(3):
        reading.save("p1", f"t{number}", "u", number)
    rows = reading.select("p1")
    next(rows)
    with pytest.raises(Exception, match=r"(?i)lock.*timeout"):
        dropping.drop("p1")
    rows.close()
    dropping.drop("p1")
    assert dropping.count("p1") == 0


# --- threads, processes and lost connections -----------------------------------------------------


def in_threads(*each: Callable[[], object]) -> list[BaseException]:
    """Run functions at once; return what they raised."""
    raised: list[BaseException] = []
    begin = threading.Barrier(len(each))

    def run(function: Callable[[], object]) -> None:
        begin.wait()
        try:
            function()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_threads_share_a_database(taskdb: Any) -> None:
    def work(name: str) -> Callable[[], None]:
        def put_and_get() -> None:
            for number in range(20):
                taskdb.insert(name, f"t{number}", {"url": name, "status": 1})
                assert taskdb.get_task(name, f"t{number}")["url"] == name

        return put_and_get

    if hasattr(taskdb, "patience"):
        taskdb.patience = 60.0  # who waits for the lock of a file has no turn
    assert in_threads(*(work(f"p{number}") for number in range(4))) == []
    assert all(taskdb.status_count(f"p{number}") == {1: 20} for number in range(4))


def test_several_may_make_the_same_tables_at_once(server_backend: Databases) -> None:
    connected: list[Any] = []
    server_backend.make("project")
    raised = in_threads(*[lambda: connected.append(server_backend.connect("project"))] * 4)
    assert raised == []
    databases = [server_backend.connect("result") for _ in range(4)]
    for round_ in range(5):
        saves = [
            lambda each=each, n=n: each.save(f"p{round_}", f"t{n % 2}", "u", n)  # noqa: B023
            for n, each in enumerate(databases)
        ]
        assert in_threads(*saves) == []
        assert databases[0].count(f"p{round_}") == 2


@pytest.mark.parametrize("kind", ["task", "project", "result"])
def test_a_lost_connection_is_replaced_by_the_next_call(
    server_backend: Databases, kind: str
) -> None:
    database = server_backend.connect(kind)
    put, get = {
        "task": (lambda: database.insert("p", "t", TASK), lambda: database.get_task("p", "t")),
        "project": (lambda: database.insert("p", PROJECT), lambda: database.get("p")),
        "result": (lambda: database.save("p", "t", "u", 1), lambda: database.get("p", "t")),
    }[kind]
    assert server_backend.server
    put()
    server_backend.server.end_connections()
    assert get()
    server_backend.server.end_connections()
    database.drop("p")
    assert not get()


def in_child(taskdb: Any) -> None:
    taskdb.insert("p1", "child", TASK)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(server_backend: Databases) -> None:
    taskdb = server_backend.connect("task")
    taskdb.insert("p1", "parent", TASK)
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(taskdb,))
    child.start()
    child.join()
    assert child.exitcode == 0
    taskdb.insert("p1", "again", TASK)
    assert taskdb.status_count("p1") == {1: 3}


def test_a_copy_is_another_connection_to_the_same_rows(backend: Databases) -> None:
    taskdb = backend.connect("task")
    other = taskdb.copy()
    taskdb.insert("p1", "t1", TASK)
    assert other.get_task("p1", "t1")["taskid"] == "t1"
    if hasattr(other, "close"):
        other.close()


# --- any sequence of calls gives the rows that sqlite gives --------------------------------------

names = st.sampled_from(["p", "q_1"])  # in sqlite, tables that differ in case only are one
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
ids = st.text(characters, max_size=6).filter(lambda text: not text.endswith(" "))
documents = st.dictionaries(st.text(max_size=3), st.none() | st.floats(allow_nan=False), max_size=2)
columns = st.fixed_dictionaries(
    {"url": ids, "status": st.integers(1, 4)},
    optional={
        "schedule": documents,
        "track": documents,
        "lastcrawltime": st.none() | st.floats(0, 2**32),
    },
)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), names, ids, columns),
        st.tuples(st.just("update"), names, ids, columns),
        st.tuples(st.just("drop"), names),
    ),
    min_size=1,
    max_size=12,
)


def outcome(taskdb: Any, call: tuple[Any, ...]) -> str:
    """Carry out a call; return the name of what it raised."""
    method, *arguments = call
    try:
        getattr(taskdb, method)(*arguments)
    except Exception as error:
        return next(kind.__name__ for kind in (LookupError, type(error)) if isinstance(error, kind))
    return ""


def content(taskdb: Any) -> Iterator[list[Any]]:
    """Yield all that can be read, in an order of its own."""
    taskdb._list_project()
    yield sorted(taskdb.projects)
    for project in sorted(taskdb.projects):
        yield sorted(taskdb.status_count(project).items())
        for status in range(1, 5):
            rows = map(without_times, taskdb.load_tasks(status, project))
            yield sorted(rows, key=lambda row: row["taskid"].encode())


@pytest.fixture
def pair(server_backend: Databases, databases: Callable[[str], Databases]) -> list[Any]:
    """Give a server's task database, and sqlite's; the same ones for all examples."""
    return [server_backend.connect("task"), databases("sqlite").connect("task")]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls)
def test_any_calls_leave_the_rows_that_sqlite_has(pair: list[Any], sequence: list[Any]) -> None:
    for taskdb in pair:
        for project in list(taskdb.projects):
            taskdb.drop(project)
    for call in sequence:
        theirs, reference = (outcome(taskdb, call) for taskdb in pair)
        assert theirs == reference, call
    theirs, reference = (list(content(taskdb)) for taskdb in pair)
    assert theirs == reference
