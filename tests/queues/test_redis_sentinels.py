"""A Redis that fails over: the master dies or changes, and nobody is restarted."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue

import pytest
import redis

from pyspider_zk.components.wiring import check_login
from pyspider_zk.errors import ConfigError, Refused, Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.api import Message, Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.redis_facts import SentinelView
from pyspider_zk.queues.redis_link import missing_master
from pyspider_zk.queues.resilient import SendBuffer
from tests.queues.ways_in import stock, works
from tests.support.replicated_redis import (
    MASTER_NAME,
    ReplicatedRedis,
    replicated_redis,
    secured_replicated_redis,
)
from tests.support.secured_servers import authority

NEW = QueueKind.NEWTASK
PASSWORDS = ("of/Redis@?", "of+sent/inels@&")
DEAD = ("127.0.0.1:1", "127.0.0.1:2")
NOBODY = f"redis+sentinel://:hunter2@{','.join(DEAD)}/{MASTER_NAME}?sentinel_password=hunter3"

Eventually = Callable[..., None]


def message(number: int) -> Message:
    return Message(NEW, 3, {"project": "p", "number": number})


@pytest.fixture(scope="module")
def lasting(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReplicatedRedis]:
    """Give a Redis with sentinels, of which no test takes anything away."""
    with replicated_redis(tmp_path_factory.mktemp("lasting")) as made:
        yield made


@pytest.fixture
def failing(
    redis_server: RedisServer,  # noqa: ARG001 - as above
    tmp_path: Path,
) -> Iterator[ReplicatedRedis]:
    """Give one of this test alone."""
    with replicated_redis(tmp_path) as made:
        yield made


def done(work: Callable[[], object]) -> Callable[[], bool]:
    """Return what tries a piece of work, and tells whether it was done."""

    def is_done() -> bool:
        with suppress(Unavailable):
            work()
            return True
        return False

    return is_done


def numbers(queues: Queues) -> list[object]:
    """Return what is read from the slot queue, and acknowledge it."""
    with suppress(Unavailable):
        found = queues.slot_queues.read(NEW, 10)
        queues.slot_queues.acknowledge(found)
        return [each.body["number"] for each in found]
    return []


@pytest.mark.redis
@pytest.mark.slow
def test_the_master_is_found_everywhere(lasting: ReplicatedRedis) -> None:
    assert works(lasting.url)


@pytest.mark.redis
@pytest.mark.slow
def test_one_sentinel_that_answers_is_enough(lasting: ReplicatedRedis) -> None:
    assert works(lasting.url.replace("://", f"://{','.join(DEAD)},"))


@pytest.mark.redis
@pytest.mark.slow
def test_publisher_and_readers_go_on_at_the_new_master(
    failing: ReplicatedRedis, eventually: Eventually
) -> None:
    with closing(connect(failing.url, 0, 8)) as ours, closing(connect(failing.url, 0, 8)) as other:
        other.slot_queues.take([3])
        ours.slot_queues.publish([message(1)])
        assert numbers(other) == [1]

        failing.kill_master()
        with pytest.raises(Unavailable):
            ours.slot_queues.publish([message(2)])
        failing.await_failover()
        eventually(done(lambda: ours.slot_queues.publish([message(3)])))

        eventually(lambda: numbers(other) == [3])


@pytest.mark.redis
@pytest.mark.slow
def test_who_waits_for_a_message_gets_it_from_the_new_master(
    failing: ReplicatedRedis, eventually: Eventually
) -> None:
    (_, waiting), (sending, _) = stock(failing.url), stock(failing.url)
    got: SimpleQueue[object] = SimpleQueue()
    woken = threading.Event()
    with closing(connect(failing.url, 0, 8)) as ours, closing(connect(failing.url, 0, 8)) as other:

        def listen() -> None:
            while not woken.is_set():
                with suppress(Unavailable):
                    if other.wake_ups.wait(60) == {(NEW, 3)}:
                        woken.set()

        threads = [
            threading.Thread(target=lambda: got.put(waiting.get()), daemon=True),
            threading.Thread(target=listen, daemon=True),
        ]
        for thread in threads:
            thread.start()
        with redis.Redis.from_url(failing.servers[0].url) as client:
            eventually(lambda: client.info("clients")["blocked_clients"] == 2, "two that wait")

        failing.kill_master()
        failing.await_failover()
        unsent = SendBuffer(sending)
        unsent.put("body")
        unsent.flush()
        eventually(done(lambda: ours.slot_queues.publish([message(1)])))

        assert got.get(timeout=60) == "body"
        assert woken.wait(60)
        for thread in threads:
            thread.join()


@pytest.mark.redis
@pytest.mark.slow
def test_a_master_that_became_a_replica_is_left(
    failing: ReplicatedRedis, eventually: Eventually
) -> None:
    first = failing.servers[0]
    with closing(connect(failing.url, 0, 8)) as ours, closing(connect(failing.url, 0, 8)) as other:
        other.slot_queues.take([3])
        assert numbers(other) == []
        ours.inbox.lengths()
        with failing.sentinels[0].client() as sentinel:
            eventually(lambda: sentinel.execute_command("SENTINEL FAILOVER", MASTER_NAME))
        failing.await_failover()
        with redis.Redis.from_url(first.url) as client:
            eventually(lambda: client.info("replication")["role"] == "slave", "a former master")

        eventually(done(lambda: ours.slot_queues.publish([message(1)])))
        eventually(lambda: numbers(other) == [1])


@pytest.mark.redis
@pytest.mark.slow
def test_a_replica_that_sentinels_still_name_is_not_read(failing: ReplicatedRedis) -> None:
    first, second = failing.servers
    with closing(connect(failing.url, 0, 8)) as early:
        early.slot_queues.take([3])
        early.slot_queues.publish([message(1)])
        for sentinel in failing.sentinels[1:]:
            sentinel.stop()  # so that nobody corrects what follows
        with redis.Redis.from_url(first.url) as client:
            client.replicaof("127.0.0.1", str(second.port))
        assert failing.state()["port"] == first.port

        with pytest.raises(Unavailable):
            early.slot_queues.publish([message(2)])
        with pytest.raises(Unavailable, match="is no master"):
            early.slot_queues.read(NEW, 1)
        late = connect(failing.url, 0, 8)
        with closing(late), pytest.raises(Unavailable, match="is no master"):
            late.inbox.lengths()


@pytest.mark.redis
@pytest.mark.slow
def test_another_name_is_told_with_those_that_are_known(lasting: ReplicatedRedis) -> None:
    wrong = lasting.url.replace(f"/{MASTER_NAME}/", "/mymaster/")
    with pytest.raises(Refused, match=f"such master, but {MASTER_NAME}.*; correct the"):
        check_login(wrong)
    with pytest.raises(Refused, match="mymaster"):
        stock(wrong)[0]._inner.qsize()


def test_sentinels_that_nobody_reaches_are_all_told() -> None:
    check_login(NOBODY)  # an outage, in which a component may start
    with closing(connect(NOBODY, 0, 8)) as queues, pytest.raises(Unavailable) as told:
        queues.inbox.lengths()
    for words in (*DEAD, "Connection refused", "no sentinel answers", MASTER_NAME):
        assert words in str(told.value)
    assert "hunter" not in str(told.value)


@pytest.mark.redis
def test_what_is_no_sentinel_is_told(redis_server: RedisServer) -> None:
    url = f"redis+sentinel://{redis_server.address}/{MASTER_NAME}"
    with closing(connect(url, 0, 8)) as queues, pytest.raises(Unavailable, match="unknown command"):
        queues.inbox.lengths()


def test_a_master_that_is_down_is_told_as_each_sentinel_sees_it() -> None:
    views = [
        SentinelView("s1:1", master="r1:1", is_up=False),
        SentinelView("s2:1", fault="Connection refused"),
        SentinelView("s3:1", known=("other",)),
    ]
    told = missing_master(MASTER_NAME, views)
    assert type(told) is Unavailable
    assert str(told) == (
        f"Redis at {MASTER_NAME}: s1:1 sees r1:1 down; s2:1: Connection refused;"
        " s3:1 knows no such master, but other; no master is up"
    )


@pytest.fixture(scope="module")
def secured(
    redis_server: RedisServer,  # noqa: ARG001 - as above
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ReplicatedRedis]:
    """Give one with TLS and two passwords."""
    folder = tmp_path_factory.mktemp("secured")
    with secured_replicated_redis(folder, authority(folder), *PASSWORDS) as made:
        yield made


@pytest.mark.redis
@pytest.mark.slow
def test_tls_and_both_passwords_are_used_everywhere(secured: ReplicatedRedis) -> None:
    assert works(secured.url)


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "instead", "told"),
    [
        ("sentinel_password=", "sentinel_password=x", "sentinel_password=PASSWORD"),
        ("&sentinel_password=", "&sentinel_username=", "sentinel_password=PASSWORD"),
        ("://:", "://:x", "AMQP_URL"),
        ("localhost", "127.0.0.1", "SSL"),
        (r"ssl_ca_certs=[^&]*&", "", "SSL"),
        (r"rediss\+sentinel:", "redis+sentinel:", "TLS needs"),
    ],
)
def test_who_is_not_let_in_is_told_so(
    secured: ReplicatedRedis, given: str, instead: str, told: str
) -> None:
    url, changes = re.subn(given, instead, secured.url)
    assert changes
    with pytest.raises((Refused, ConfigError), match=told) as refused:
        check_login(url)
    assert not any(password in str(refused.value) for password in PASSWORDS)
