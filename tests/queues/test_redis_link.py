"""Errors of Redis come out as Unavailable, and tell no secrets."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.exceptions

from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues import redis_link
from pyspider_zk.queues.api import Delivery, Message, Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.redis_link import RedisLink
from tests.conftest import Faults

NEW = QueueKind.NEWTASK
DELIVERY = Delivery(NEW, 0, "1-0", None)
MESSAGE = Message(NEW, 0, {"project": "p", "cookie": "body secret"})

ERRORS = [
    value
    for value in vars(redis.exceptions).values()
    if isinstance(value, type) and issubclass(value, Exception)
]

CALLS: dict[str, Callable[[Queues], Any]] = {
    "publish": lambda queues: queues.slot_queues.publish([MESSAGE]),
    "read": lambda queues: queues.slot_queues.read(NEW, 1),
    "acknowledge": lambda queues: queues.slot_queues.acknowledge([DELIVERY]),
    "reject": lambda queues: queues.slot_queues.reject(DELIVERY, "x"),
    "lengths": lambda queues: queues.slot_queues.lengths(),
    "dead": lambda queues: queues.slot_queues.dead(),
    "dead_letters": lambda queues: queues.slot_queues.dead_letters(1),
    "replay": lambda queues: queues.slot_queues.replay(["1-0"]),
    "discard": lambda queues: queues.slot_queues.discard(["1-0"]),
    "forward": lambda queues: queues.inbox.forward(1),
    "inbox lengths": lambda queues: queues.inbox.lengths(),
    "save": lambda queues: queues.records.save_many({0: {}}),
    "load": lambda queues: queues.records.load(0),
    "drop": lambda queues: queues.records.drop_many([0]),
}


@pytest.mark.parametrize("kind", [*ERRORS, OSError], ids=lambda kind: kind.__name__)
def test_no_error_of_the_client_is_unmapped(kind: type[Exception]) -> None:
    error = kind.__new__(kind)
    link = RedisLink("redis://host:7000")
    with pytest.raises(Unavailable, match="host:7000"), link.client():
        raise error


def test_errors_of_our_own_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), RedisLink("redis://host").client():
        raise ZeroDivisionError


def test_a_password_in_an_error_is_blotted_out() -> None:
    link, error = RedisLink("redis://:hunter2@host"), "unknown command AUTH hunter2"
    # A traceback quotes all lines of this statement.
    with pytest.raises(Unavailable) as caught, link.client():
        raise redis.ResponseError(error)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_is_unavailable_when_nobody_listens(
    call: Callable[[Queues], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_link, "FIRST_PAUSE", 0)
    queues = connect("redis://:hunter2@127.0.0.1:1/0", limit=0, slots=8)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1\b") as caught:
        call(queues)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    queues.close()


@pytest.mark.redis
def test_a_refusal_does_not_quote_what_was_sent(own_backend: Any) -> None:
    queues = own_backend.process()
    own_backend.client.config_set("maxmemory", 1)
    with pytest.raises(Unavailable, match="maxmemory") as caught:
        queues.slot_queues.publish([MESSAGE])
    assert "body secret" not in "".join(traceback.format_exception(caught.value))
    own_backend.client.config_set("maxmemory", 0)
    assert queues.slot_queues.lengths()[NEW] == 0


@pytest.mark.redis
def test_a_wrong_password_is_unavailable(own_backend: Any, own_redis: RedisServer) -> None:
    own_backend.client.config_set("requirepass", "right")
    wrong = connect(own_redis.url.replace("//", "//:hunter2@"), limit=0, slots=8)
    with pytest.raises(Unavailable) as caught:
        wrong.slot_queues.lengths()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    right = connect(own_redis.url.replace("//", "//:right@"), limit=0, slots=8)
    assert right.slot_queues.lengths()[NEW] == 0
    wrong.close()
    right.close()


@pytest.mark.redis
def test_a_redis_that_hangs_is_unavailable(
    own_backend: Any, own_redis: RedisServer, faults: Faults
) -> None:
    queues = own_backend.process()
    queues.slot_queues.lengths()
    faults.suspend(own_redis.pid)
    with pytest.raises(Unavailable, match=r"[Tt]ime"):
        queues.slot_queues.lengths()
    faults.resume(own_redis.pid)


@pytest.mark.redis
def test_a_broken_connection_is_opened_again_without_anyone_noticing(redis_backend: Any) -> None:
    queues = redis_backend.process()
    queues.slot_queues.publish([MESSAGE])
    redis_backend.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    queues.slot_queues.publish([MESSAGE])
    assert queues.slot_queues.lengths()[NEW] == 2
