"""One XML-RPC interface for many schedulers, over real servers on loopback."""

import http.server
import socket
import threading
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from pyspider_zk.cluster.records import Assignment, Cluster, Member, Meta, Slot
from pyspider_zk.errors import Mismatch, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.rpc.router import Router
from pyspider_zk.rpc.server import RpcServer
from tests.support.ports import own_port
from tests.support.stand_ins import running
from tests.support.waiting import eventually

LOOPBACK = "127.0.0.1"
SLOTS = 8
PROJECT = "one"
TASK = {"project": PROJECT, "taskid": "t", "url": "data:,t"}

Serve = Callable[..., str]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def serve(stack: ExitStack) -> Serve:
    """Give a function that serves a member's local functions and returns its address."""

    def serve(**functions: Any) -> str:
        server = RpcServer({f"local_{name}": function for name, function in functions.items()})
        stack.enter_context(running(server.serve, LOOPBACK, 0))
        stack.callback(server.stop)
        return f"{LOOPBACK}:{server.bound(60)[1]}"

    return serve


@pytest.fixture
def closed_port() -> str:
    return f"{LOOPBACK}:{own_port()}"


@pytest.fixture
def silent(stack: ExitStack) -> str:
    """Give the address of one who accepts and never answers."""
    server = stack.enter_context(socket.create_server((LOOPBACK, 0)))
    return f"{LOOPBACK}:{server.getsockname()[1]}"


@pytest.fixture
def stranger(stack: ExitStack) -> str:
    """Give the address of another program, which has a dead member's port now."""

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Stranger)
    stack.callback(server.server_close)
    stack.enter_context(running(server.serve_forever, 0.01))
    stack.callback(server.shutdown)
    return f"{LOOPBACK}:{server.server_port}"


def cluster(*addresses: str, owner: int | None = None) -> Cluster:
    """Return a cluster of members at these addresses, one of which owns everything."""
    members = {
        MemberId(number, "x"): Member(address, "host", 1, "1", 0.0)
        for number, address in enumerate(addresses)
    }
    slot = Slot() if owner is None else Slot(MemberId(owner, "x"), 1)
    return Cluster(Meta(SLOTS), Assignment(1, (slot,) * SLOTS), members=members)


@pytest.fixture
def route(stack: ExitStack) -> Callable[..., Router]:
    def route(*addresses: str, owner: int | None = None, timeout: float = 60.0) -> Router:
        known = cluster(*addresses, owner=owner)
        return stack.enter_context(closing(Router(lambda: known, timeout=timeout)))

    return route


Route = Callable[..., Router]


def test_sizes_are_summed(serve: Serve, route: Route) -> None:
    assert route(serve(size=lambda: 3), serve(size=lambda: 4)).size() == 7


def test_those_who_give_no_answer_are_named(serve: Serve, route: Route) -> None:
    faulty = route(serve(size=lambda: 3), serve(size=lambda: 1 // 0))
    assert faulty.ask("local_size") == ({MemberId(0, "x"): 3}, [MemberId(1, "x")])
    gone = route(serve(size=lambda: 3), "127.0.0.1:1")
    assert gone.ask("local_size") == ({MemberId(0, "x"): 3}, [MemberId(1, "x")])


def test_counters_are_united(serve: Serve, route: Route) -> None:
    def counter(project: str) -> Callable[..., Any]:
        return lambda window, value: {project: {window: value}}

    router = route(serve(counter=counter("a")), serve(counter=counter("b")))
    assert router.counter("5m", "sum") == {"a": {"5m": "sum"}, "b": {"5m": "sum"}}


def test_a_window_that_nobody_knows_is_none(serve: Serve, route: Route) -> None:
    router = route(serve(counter=lambda *_: None), serve(counter=lambda *_: None))
    assert router.counter("7m", "sum") is None


def test_what_the_dashboard_shows_is_united(serve: Serve, route: Route) -> None:
    def update(project: str) -> Any:
        counter = {"5m": {project: {"success": 1}}, "all": {}}
        return {"pause_status": {project: False}, "counter": counter}

    router = route(serve(webui_update=lambda: update("a")), serve(webui_update=lambda: update("b")))
    assert router.webui_update() == {
        "pause_status": {"a": False, "b": False},
        "counter": {"5m": {"a": {"success": 1}, "b": {"success": 1}}, "all": {}},
    }


def test_pause_states_are_united(serve: Serve, route: Route) -> None:
    router = route(
        serve(get_projects_pause_status=lambda: {"a": True}),
        serve(get_projects_pause_status=lambda: {"b": False}),
    )
    assert router.get_projects_pause_status() == {"a": True, "b": False}


@pytest.mark.parametrize(
    ("limit", "times"), [(-5, []), (0, []), (3, [9, 8, 7]), (100, [9, 8, 7, 5, 1])]
)
def test_the_newest_tasks_come_first_up_to_the_limit(
    serve: Serve, route: Route, limit: int, times: list[int]
) -> None:
    router = route(
        serve(get_active_tasks=lambda _, limit: [[9, {}], [7, {}], [1, {}]][:limit]),
        serve(get_active_tasks=lambda _, limit: [[8, {}], [5, {}]][:limit]),
    )
    assert [time for time, _ in router.get_active_tasks("", limit)] == times


def test_an_update_reaches_every_member(serve: Serve, route: Route) -> None:
    told: list[str] = []
    route(
        serve(update_project=lambda: told.append("one")),
        serve(update_project=lambda: told.append("two")),
    ).update_project()
    assert sorted(told) == ["one", "two"]


@pytest.mark.parametrize("method", ["newtask", "send_task"])
def test_a_task_goes_to_the_owner_of_its_project(serve: Serve, route: Route, method: str) -> None:
    got: list[Any] = []
    router = route(
        serve(**{method: lambda _: pytest.fail("this is not the owner")}),
        serve(**{method: lambda task: got.append(task) or True}),
        owner=1,
    )
    assert getattr(router, method)(TASK) is True
    assert got == [TASK]


def test_only_the_slot_of_the_project_decides(
    serve: Serve, stack: ExitStack, closed_port: str
) -> None:
    table = [Slot(MemberId(0, "x"), 1)] * SLOTS
    table[slot_of(PROJECT, SLOTS)] = Slot(MemberId(1, "x"), 1)
    members = cluster(closed_port, serve(newtask=lambda _: True)).members
    known = Cluster(Meta(SLOTS), Assignment(1, tuple(table)), members=members)
    router = stack.enter_context(closing(Router(lambda: known)))
    assert router.newtask(TASK) is True


def test_a_task_of_a_project_without_an_owner_goes_to_anyone(serve: Serve, route: Route) -> None:
    assert route(serve(newtask=lambda _: True)).newtask(TASK) is True


def test_a_task_whose_owner_does_not_answer_goes_to_another(
    serve: Serve, route: Route, closed_port: str
) -> None:
    assert route(closed_port, serve(newtask=lambda _: True), owner=0).newtask(TASK) is True


@pytest.mark.parametrize("task", [None, "a task", {}, {"project": 1}])
def test_what_is_no_task_is_for_a_member_to_refuse(
    serve: Serve, route: Route, task: object
) -> None:
    assert route(serve(newtask=lambda _: False), owner=0).newtask(task) is False  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", ["closed_port", "silent", "stranger"])
def test_a_member_that_does_not_answer_is_left_out(
    serve: Serve, route: Route, request: pytest.FixtureRequest, fault: str
) -> None:
    router = route(serve(size=lambda: 3), request.getfixturevalue(fault), timeout=1)

    def is_left_out() -> bool:
        with suppress(ConnectionRefusedError):  # on a starved machine nobody answered in time
            return bool(router.size() == 3)
        return False

    eventually(is_left_out)


@pytest.mark.parametrize("fault", ["closed_port", "silent", "stranger"])
@pytest.mark.parametrize("method", ["size", "newtask"])
def test_no_answer_at_all_is_the_error_that_pyspiders_views_expect(
    route: Route, request: pytest.FixtureRequest, fault: str, method: str
) -> None:
    router = route(request.getfixturevalue(fault), owner=0, timeout=0.1)
    args = [TASK] if method == "newtask" else []
    with pytest.raises(ConnectionRefusedError):
        getattr(router, method)(*args)


def test_a_cluster_without_members_is_that_error_too(route: Route) -> None:
    with pytest.raises(ConnectionRefusedError):
        route().size()


@pytest.mark.parametrize("method", ["size", "newtask"])
def test_a_fault_is_passed_on(serve: Serve, route: Route, method: str) -> None:
    router = route(serve(**{method: lambda *_: {}["missing"]}), owner=0)
    args = [TASK] if method == "newtask" else []
    with pytest.raises(xmlrpc.client.Fault, match="missing"):
        getattr(router, method)(*args)


class RoutingTable:
    """What stands in ZooKeeper, which may be away.

    Attributes:
        now: what stands there, or the error instead.
        reads: how often it was read.
    """

    def __init__(self, now: Cluster | Exception) -> None:
        self.now = now
        self.reads = 0

    def read(self) -> Cluster:
        self.reads += 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


def test_while_zookeeper_is_away_the_last_known_members_serve(
    serve: Serve, stack: ExitStack
) -> None:
    table = RoutingTable(cluster(serve(size=lambda: 3)))
    router = stack.enter_context(closing(Router(table.read, fresh_for=-1)))
    assert router.size() == 3
    table.now = Unavailable("no ZooKeeper")
    assert router.size() == 3
    assert table.reads == 2


@pytest.mark.parametrize("error", [Unavailable("no ZooKeeper"), Mismatch("no cluster")])
def test_without_a_known_member_it_is_the_error_that_views_expect(
    stack: ExitStack, error: Exception
) -> None:
    router = stack.enter_context(closing(Router(RoutingTable(error).read)))
    with pytest.raises(OSError, match="no scheduler is known"):
        router.size()


@pytest.mark.parametrize("method", ["size", "newtask"])
def test_a_stale_table_is_read_anew_after_a_failure(
    serve: Serve, stack: ExitStack, closed_port: str, method: str
) -> None:
    # given
    table = RoutingTable(cluster(closed_port, owner=0))
    router = stack.enter_context(closing(Router(table.read, fresh_for=1e9)))
    args = [TASK] if method == "newtask" else []
    with pytest.raises(OSError, match="no scheduler"):
        getattr(router, method)(*args)
    # when
    table.now = cluster(serve(**{method: lambda *_: 1}), owner=0)
    # then
    assert getattr(router, method)(*args) == 1
    assert table.reads == 2


def test_a_fresh_table_is_not_read_again(serve: Serve, stack: ExitStack) -> None:
    table = RoutingTable(cluster(serve(size=lambda: 3)))
    router = stack.enter_context(closing(Router(table.read, fresh_for=1e9)))
    assert [router.size() for _ in range(3)] == [3, 3, 3]
    assert table.reads == 1


def test_members_are_asked_at_the_same_time(serve: Serve, route: Route) -> None:
    together = threading.Barrier(3)
    members = [serve(size=lambda: together.wait(60) * 0 + 1) for _ in range(3)]
    assert route(*members).size() == 3
