"""What fails: how errors are grouped, and the table of it in every task database."""

import traceback
from typing import Any

import pytest

from pyspider_zk.errors import BadRequest
from pyspider_zk.tasks import failure_table
from pyspider_zk.tasks.failure_report import FailureReport
from pyspider_zk.tasks.failures import (
    CALLBACK_LENGTH,
    KIND_LENGTH,
    TEXT_LENGTH,
    FailedTry,
    FailureKind,
    failure_kind,
    failure_of,
)
from pyspider_zk.tasks.filters import FailureFilter
from pyspider_zk.tasks.writes import TaskWrite
from tests.tasks.conftest import TaskBackend

TRACE = "[E 261128 p:1] {}\n    Traceback (most recent call last):\n      ...\n    {}\n"


def kind(exception: object = None, last_line: str = "", fetched: object = None) -> str:
    logs = TRACE.format(exception, last_line)
    return failure_kind({"exception": exception, "logs": logs}, {"error": fetched})


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exception", "last_line", "expected"),
    [
        ("'title'", "KeyError: 'title'", "KeyError: 'title'"),
        ("", "AssertionError", "AssertionError"),
        ("404: gone", "requests.HTTPError: 404: gone", "HTTPError: #: gone"),
        ("bad (<p>, line 3)", "SyntaxError: bad", "SyntaxError: bad (<p>, line #)"),
        ("no traceback", "", "no traceback"),
        ("no such page", "page", "no such page"),
    ],
)  # fmt: skip
def test_the_kind_of_an_exception_has_its_class(
    exception: str, last_line: str, expected: str
) -> None:
    assert kind(exception, last_line) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("two\nlines"), "ValueError: two"),
        (KeyError("title"), "KeyError: 'title'"),
        (AssertionError(), "AssertionError"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "UnicodeDecodeError: 'utf-#' codec"),
    ],
)
def test_a_real_traceback_tells_the_class(error: Exception, expected: str) -> None:
    try:
        raise error
    except Exception as caught:
        logs = "".join(f"    {line}\n" for line in traceback.format_exc().splitlines())
        found = failure_kind({"exception": str(caught), "logs": logs}, {})
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("HTTP 599: after 20001 milliseconds", "HTTP 599: after # milliseconds"),
        ("http://a.example/b?c=1 and https://x/y.", "URL and URL"),
        ("<Element at 0x7f3212ab>", "<Element at #>"),
        ("page d41d8cd98f00b204e9800998ecf8427e", "page #"),
        ("of 2026-11-28 12:00:01.5", "of # #"),
        ("deadbeef is a word, defaced too", "deadbeef is a word, defaced too"),
        ("1,234.5 of 7", "# of #"),
    ],
)  # fmt: skip
def test_what_varies_is_left_out_of_the_kind(error: str, expected: str) -> None:
    assert kind(error) == expected


def test_without_an_exception_the_fetchers_error_counts() -> None:
    assert kind(None, "", "HTTP 599: no route") == "HTTP 599: no route"
    assert kind() == "no reason was given"
    assert failure_kind({"exception": 7, "logs": b"x"}, {}) == "#"


def test_what_scripts_and_pages_write_fits_every_database() -> None:
    hostile = "\0\ud800\x1b" + "x" * 5000
    track = {
        "process": {"ok": False, "exception": hostile, "callback": hostile},
        "fetch": {"status_code": 10**9},
    }
    task = {"url": hostile, "track": track, "lastcrawltime": 5.0}
    found = failure_of(task, is_given_up=True)
    assert len(found.kind) <= KIND_LENGTH
    assert len(found.callback) <= CALLBACK_LENGTH
    assert max(len(found.error), len(found.url)) <= TEXT_LENGTH
    assert (found.status_code, found.at) == (0, 5.0)
    for text in (found.kind, found.callback, found.error, found.url):
        assert text.isprintable()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("all", "must be an object"),
        ({"kinds": "x"}, "a filter of failures has no kinds; known are project, kind"),
        ({"kind": 5}, "Expected `str | null`"),
        ({"since": "now"}, "Expected `float | null`"),
    ],
)
def test_a_filter_with_a_slip_is_refused(asked: Any, told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        FailureFilter.parse(asked)
    assert told in str(refused.value)


# --- the table ------------------------------------------------------------------------------------


def failed(at: float, kind: str = "K", **more: Any) -> FailedTry:
    known = FailedTry(f"http://u/{at}", kind, "page", 200, f"{kind} {at}", False, at)
    return known._replace(**more)


@pytest.fixture
def report(backend: TaskBackend) -> FailureReport:
    return FailureReport(backend.theirs.taskdb)


def write(backend: TaskBackend, *said: tuple[str, str, FailedTry | None]) -> None:
    columns = backend.ours.bulk.encoded(
        {"url": "u", "status": 3, "track": {"process": {"logs": "L"}}}
    )
    backend.ours.write(*(TaskWrite(*key, columns, True, failure) for *key, failure in said))


def test_failures_are_grouped_over_projects(backend: TaskBackend, report: FailureReport) -> None:
    assert report.kinds(FailureFilter()) == ((), 0)
    write(
        backend,
        ("p1", "a", failed(1.5)),
        ("p1", "b", failed(2.0, is_given_up=True)),
        ("p2", "a", failed(3.0)),
        ("p2", "b", failed(4.0, "other", callback="", status_code=0)),
    )
    most = FailureKind("K", "page", 200, 3, 1, 2, 1.5, 3.0)
    few = FailureKind("other", "", 0, 1, 0, 1, 4.0, 4.0)
    assert report.kinds(FailureFilter()) == ([most, few], 2)
    assert report.kinds(FailureFilter(), 1, 5) == ([few], 2)
    assert report.kinds(FailureFilter(), 7, 5) == ([], 2)
    assert report.projects(FailureFilter()) == {"p1": 2, "p2": 2}
    assert report.projects(FailureFilter(kind="K")) == {"p1": 2, "p2": 1}
    for wanted in ({"project": "p1"}, {"callback": "page"}, {"status_code": 200}, {"kind": "K"}):
        assert report.kinds(FailureFilter(**wanted))[1] == 1
    assert report.kinds(FailureFilter(since=4.0)) == ([few], 1)
    assert report.kinds(FailureFilter(error="OTHER 4")) == ([few], 1)
    assert report.kinds(FailureFilter(url="/U/4.", error="her")) == ([few], 1)
    assert report.kinds(FailureFilter(error="%")) == report.kinds(FailureFilter(url="_")) == ([], 0)


def test_tasks_come_the_latest_first_page_by_page(
    backend: TaskBackend, report: FailureReport
) -> None:
    write(backend, *(("p1", f"t{n}", failed(float(n // 2))) for n in range(7)))
    found: list[str] = []
    after = None
    while page := report.tasks(FailureFilter(project="p1"), after, 2):
        found += [task.taskid for task in page]
        after = page[-1].position
    assert found == ["t6", "t4", "t5", "t2", "t3", "t0", "t1"]
    assert report.logs(report.tasks(FailureFilter(), None, 1)) == ["L"]


def test_a_task_that_fails_again_fails_since_its_first_try(
    backend: TaskBackend, report: FailureReport
) -> None:
    write(backend, ("p1", "a", failed(1.0)))
    write(backend, ("p1", "a", failed(2.0)), ("p1", "a", failed(3.0, "L", is_given_up=True)))
    (task,) = report.tasks(FailureFilter())
    assert (task.kind, task.is_given_up, task.first_at, task.last_at) == ("L", True, 1.0, 3.0)


def test_one_that_has_recovered_is_gone(backend: TaskBackend, report: FailureReport) -> None:
    write(backend, ("p1", "a", failed(1.0)), ("p1", "b", failed(1.0)), ("p1", "c", failed(1.0)))
    write(backend, ("p1", "a", None), ("p1", "b", failed(2.0)), ("p1", "b", None))
    write(backend, ("p1", "c", None), ("p1", "c", failed(3.0)))
    assert [(task.taskid, task.first_at) for task in report.tasks(FailureFilter())] == [("c", 1.0)]


def test_a_dropped_project_leaves_none(backend: TaskBackend, report: FailureReport) -> None:
    write(backend, ("p1", "a", failed(1.0)), ("p2", "a", failed(1.0)))
    backend.ours.bulk.drop(["p1"], lambda: None)
    assert report.projects(FailureFilter()) == {"p2": 1}


def test_what_is_undone_has_not_failed(backend: TaskBackend, report: FailureReport) -> None:
    def refuse() -> None:
        raise LookupError

    columns = backend.ours.bulk.encoded({"url": "u", "status": 3})
    with pytest.raises(LookupError):
        backend.ours.bulk.write_many([TaskWrite("p1", "a", columns, True, failed(1.0))], refuse)
    assert report.tasks(FailureFilter()) == []


def test_a_table_that_was_dropped_is_made_again(
    backend: TaskBackend, report: FailureReport
) -> None:
    write(backend, ("p1", "a", failed(1.0)))
    backend.ours.execute(f"DROP TABLE {backend.quoted(failure_table.NAME)}")
    with pytest.raises(Exception, match=failure_table.NAME):
        write(backend, ("p1", "b", failed(2.0)))
    backend.ours.bulk.look_again()  # as after any error
    write(backend, ("p1", "b", failed(2.0)))
    assert [task.taskid for task in report.tasks(FailureFilter())] == ["b"]
