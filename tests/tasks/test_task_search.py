"""Task search, in every database."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspider.libs.utils import md5string

from pyspider_zk.errors import BadRequest
from pyspider_zk.tasks.filters import TaskFilter
from pyspider_zk.tasks.task_search import FoundTask, FoundTasks, TaskSearch
from tests.tasks.conftest import TaskBackend

ACTIVE, SUCCESS, FAILED = 1, 2, 3


@pytest.fixture
def search(backend: TaskBackend) -> Iterator[TaskSearch]:
    with closing(TaskSearch(backend.theirs.taskdb, lambda: 0.0)) as search:
        yield search


@pytest.fixture
def hasty(backend: TaskBackend) -> Iterator[TaskSearch]:
    """Give a search whose time is over after each page of three rows."""
    clock = itertools.count().__next__
    with closing(TaskSearch(backend.theirs.taskdb, clock, size=3)) as search:
        yield search


def write(backend: TaskBackend, *tasks: tuple[str, str, str, int, float | None]) -> None:
    backend.ours.write(
        *(
            backend.ours.new(
                project, taskid, {"url": url, "status": status, "lastcrawltime": crawled}
            )
            for project, taskid, url, status, crawled in tasks
        )
    )


@pytest.fixture
def written(backend: TaskBackend) -> None:
    write(
        backend,
        ("news", "a", "http://news.example/100%_a", SUCCESS, 10.0),
        ("news", "b", "http://news.example/b", FAILED, 20.0),
        ("shop", "c", "http://shop.example/C", SUCCESS, 30.0),
        ("shop", "d", "http://shop.example/d", ACTIVE, None),
    )


def looks(search: TaskSearch, wanted: TaskFilter, limit: int = 25) -> Iterator[FoundTasks]:
    look = search.look(wanted, "", limit)
    yield look
    while look.cursor:
        look = search.look(wanted, look.cursor, limit)
        yield look


def ids(found: Iterator[FoundTasks]) -> list[str]:
    return [task.taskid for look in found for task in look.tasks]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "abcd"),
        ({"project": "news"}, "ab"),
        ({"project": "none"}, ""),
        ({"url": "EXAMPLE/c"}, "c"),
        ({"url": "0%_"}, "a"),
        ({"url": "%"}, "a"),
        ({"url": "b"}, "b"),
        ({"url": "http://"}, "abcd"),
        ({"state": "SUCCESS"}, "ac"),
        ({"state": "SUCCESS", "url": "shop", "since": 30.0}, "c"),
        ({"since": 20.0}, "bc"),
        ({"state": "BAD"}, ""),
    ],
)
@pytest.mark.usefixtures("written")
def test_all_that_is_given_must_hold(
    search: TaskSearch, wanted: dict[str, Any], found: str
) -> None:
    look = search.look(TaskFilter(**wanted))
    assert [task.taskid for task in look.tasks] == sorted(found)
    assert look.cursor == ""
    assert look.projects == look.of


@pytest.mark.usefixtures("written")
def test_a_task_is_told_as_it_is_stored(search: TaskSearch) -> None:
    found = search.look(TaskFilter(project="shop")).tasks
    assert list(found) == [
        FoundTask("shop", "c", "http://shop.example/C", "SUCCESS", 30.0),
        FoundTask("shop", "d", "http://shop.example/d", "ACTIVE", None),
    ]


def test_a_whole_url_is_found_first_wherever_it_is(
    backend: TaskBackend, search: TaskSearch, hasty: TaskSearch
) -> None:
    url = "http://shop.example/page"
    write(
        backend,
        *(("a", f"{n}", f"{url}/{n}", SUCCESS, 1.0) for n in range(3)),
        ("shop", md5string(url), url, FAILED, 2.0),
    )
    first, *others = search.look(TaskFilter(url=url)).tasks
    assert (first.project, first.url) == ("shop", url)
    assert [task.project for task in others] == ["a"] * 3
    assert ids(looks(hasty, TaskFilter(url=url))) == [first.taskid, "0", "1", "2"]
    assert not search.look(TaskFilter(url=url, state="ACTIVE")).tasks


def test_an_id_is_found_though_it_is_a_number(backend: TaskBackend, search: TaskSearch) -> None:
    write(backend, ("shop", "17", "http://shop.example/x", SUCCESS, 1.0))
    assert [task.taskid for task in search.look(TaskFilter(url="17")).tasks] == ["17"]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize("wanted", [TaskFilter(), TaskFilter(url="EXAMPLE/1")])
def test_looks_go_on_where_the_last_one_ended(
    backend: TaskBackend, search: TaskSearch, hasty: TaskSearch, limit: int, wanted: TaskFilter
) -> None:
    rows = [(p, f"{n:02}", f"http://example/{n}", SUCCESS, 1.0) for p in "pq" for n in range(12)]
    write(backend, *rows)
    expected = [row[1] for row in rows if (wanted.url or "").lower() in row[2]]
    for each in (search, hasty):
        found = list(looks(each, wanted, limit))
        assert ids(iter(found)) == expected
        assert max(len(look.tasks) for look in found) <= limit
        assert [look.projects for look in found] == sorted(look.projects for look in found)
        assert sum(look.rows for look in found) == len(rows)
    assert len(found) > 4


def test_a_project_that_is_dropped_meanwhile_is_passed_over(
    backend: TaskBackend, search: TaskSearch
) -> None:
    write(backend, *((p, p, f"http://example/{p}", SUCCESS, 1.0) for p in "abc"))
    first = search.look(TaskFilter(), limit=1)
    backend.ours.bulk.drop(["b"], lambda: None)
    assert [task.taskid for task in search.look(TaskFilter(), first.cursor).tasks] == ["c"]


@pytest.mark.parametrize(
    "cursor", ["x", "row", "all p #1", "row p 1", "row p #1.5", f"row p #{2**63}"]
)
def test_a_cursor_that_is_none_is_refused(search: TaskSearch, cursor: str) -> None:
    with pytest.raises(BadRequest, match="none of a search"):
        search.look(TaskFilter(), cursor)


@pytest.mark.parametrize("position", ["#5", "=x y", f"#{2**63 - 1}", f"#-{2**63 - 1}", "="])
def test_a_foreign_position_harms_nothing(
    backend: TaskBackend, search: TaskSearch, position: str
) -> None:
    write(backend, ("p", "a", "http://example/", SUCCESS, 1.0))
    assert search.look(TaskFilter(), f"row p {position}").cursor == ""
