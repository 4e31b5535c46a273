"""What ZooKeeper refuses: a few answers are decided by, all others are an outage or the session."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from kazoo.exceptions import (
    ConnectionLoss,
    QuotaExceededError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)

from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, SessionLost, Unavailable
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import OUTDATED, is_answer
from pyspider_zk.zookeeper.steps import Check, Create, Delete, Write
from tests.support.zk_faults import CALLS, STEP, Refusal, Refusing, all_refusals

STEPS = [Check("/a"), Create("/b", b""), Write("/c", b""), Delete("/d")]

REQUESTS: dict[str, list[Callable[[Connection], object]]] = {
    "get": [
        lambda one: one.get("/a"),
        lambda one: one.find("/a"),
        lambda one: one.find_all(["/a", "/b"]),
        lambda one: one.details(["/a"]),
        lambda one: one.look([("/a", None)]),
    ],
    "children": [lambda one: one.children("/a"), lambda one: one.look([], [("/a", None)])],
    "exists": [lambda one: one.dates("/a")],
    "acls": [lambda one: one.is_open("/a"), lambda one: one.granted_to_all(["/a"])],
    "create": [lambda one: one.create("/a"), lambda one: one.ensure(["/a"])],
    "set": [lambda one: one.set("/a", b"")],
    "delete": [lambda one: one.delete("/a")],
    "protect": [lambda one: one.protect("/a")],
    "sync": [lambda one: one.sync("/a")],
    "multi": [lambda one: one.multi(*STEPS), lambda one: one.multi_all([STEPS, STEPS])],
    STEP: [lambda one: one.multi(*STEPS), lambda one: one.multi_all([STEPS, STEPS])],
}


@pytest.fixture
def connection() -> Connection:
    """Give a connection that was never started: nothing is sent."""
    return Connection(replace(Settings(), username="us", password="secret"))  # noqa: S106


def outcome_of(request: Callable[[Connection], object], connection: Connection) -> object:
    try:
        return request(connection)
    except Exception as error:
        return error


def is_expected(outcome: object, refusal: Refusal) -> bool:
    """Return whether callers can tell what happened."""
    if isinstance(outcome, ClusterError):
        return True
    return issubclass(refusal, OUTDATED) and not is_other_than(refusal, outcome)


def is_other_than(refusal: Refusal, outcome: object) -> bool:
    return isinstance(outcome, Exception) and not isinstance(outcome, refusal)


@pytest.mark.parametrize("call", CALLS)
def test_every_error_of_every_request_is_one_that_callers_know(connection, call: str):
    refusing = Refusing(connection)
    unexpected = []
    for refusal in all_refusals():
        for number, request in enumerate(REQUESTS[call]):
            with refusing.refusing(call, refusal):
                outcome = outcome_of(request, connection)
            assert refusing.count
            if not is_expected(outcome, refusal):
                unexpected.append((refusal.__name__, number, outcome))

    assert unexpected == []


@pytest.mark.parametrize("call", ["get", "multi", STEP])
def test_an_outage_names_the_error_the_znode_and_what_to_do(connection: Connection, call: str):
    with (
        Refusing(connection).refusing(call, QuotaExceededError),
        pytest.raises(Unavailable, match=r"/[ac]\b.*QuotaExceededError.*raise the quota"),
    ):
        REQUESTS[call][0](connection)


@pytest.mark.parametrize(
    ("refusal", "lives"),
    [
        (ThrottledOpError, True),
        (QuotaExceededError, True),
        (ConnectionLoss, False),
        (SessionMovedError, False),
        (SessionExpiredError, False),
    ],
)
def test_what_a_server_refuses_it_has_answered(refusal: Refusal, lives: bool):
    assert is_answer(refusal()) == lives


def test_an_expired_session_is_lost(connection: Connection):
    with (
        Refusing(connection).refusing("get", SessionExpiredError),
        pytest.raises(SessionLost),
    ):
        connection.get("/a")
