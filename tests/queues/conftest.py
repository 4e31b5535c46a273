"""The backends of the contract tests: every queue test runs against each of them."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeVar

import pytest
import redis

from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind, record_key, slot_queue
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_typed_keys import TypedKeys, Types
from pyspider_zk.queues.slot_queues import Wait
from tests.support.memory_queues import MemoryBroker
from tests.support.ports import own_port

SLOTS = 8

Answer = TypeVar("Answer")


class Fate(Enum):
    """What becomes of a call."""

    ANSWERED = "Redis does it and its reply arrives"
    LOST = "Redis does it and its reply is lost"
    UNSENT = "it does not reach Redis"


class FatefulKeys(TypedKeys):
    """The way to a real Redis, of which the next call has a fate."""

    fate = Fate.ANSWERED
    error: BaseException = Unavailable("no reply")

    def run(self, types: Types, work: Callable[[redis.Redis], Answer]) -> Answer:
        fate, self.fate = self.fate, Fate.ANSWERED
        if fate is Fate.UNSENT:
            raise self.error
        answer = super().run(types, work)
        if fate is Fate.LOST:
            raise self.error
        return answer


@pytest.fixture
def fateful(redis_url: str) -> Iterator[FatefulKeys]:
    link = RedisLink(redis_url)
    yield FatefulKeys(link)
    link.close()


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


class MemoryBackend:
    """Queues in memory."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()

    def process(self, limit: int = 0, wait: Wait | None = None, slots: int = SLOTS) -> Queues:
        """Return the queues of one more process of the cluster."""
        return self.broker.queues(slots, limit, wait)

    def put_raw(self, kind: QueueKind, slot: int, raw: bytes) -> None:
        """Put bytes into a slot queue."""
        self.broker.append((kind, slot), raw)

    def put_inbox(self, kind: QueueKind, raw: bytes) -> None:
        """Put bytes into the inbox, as a stock component does."""
        self.broker.inboxes[kind].append(raw)

    def put_record(self, slot: int, raw: bytes) -> None:
        """Put bytes in place of a slot record."""
        self.broker.records[slot] = raw

    def close(self) -> None:
        """Nothing to let go of."""


class RedisBackend:
    """Queues in a real Redis."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = redis.Redis.from_url(url)
        self._opened: list[Queues] = []

    def process(self, limit: int = 0, wait: Wait | None = None, slots: int = SLOTS) -> Queues:
        """Return the queues of one more process of the cluster."""
        queues = connect(self.url, limit, slots, wait)
        self._opened.append(queues)
        return queues

    def put_raw(self, kind: QueueKind, slot: int, raw: bytes) -> None:
        """Put bytes into a slot queue."""
        self.client.xadd(slot_queue(kind, slot), {"body": raw})
        self.client.sadd(f"{kind.value}:ready", slot)

    def put_inbox(self, kind: QueueKind, raw: bytes) -> None:
        """Put bytes into the inbox, as a stock component does."""
        self.client.rpush(kind.value, raw)

    def put_record(self, slot: int, raw: bytes) -> None:
        """Put bytes in place of a slot record."""
        self.client.set(record_key(slot), raw)

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        for queues in self._opened:
            queues.close()


Backend = MemoryBackend | RedisBackend


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Give an empty message queue of each kind."""
    if request.param == "memory":
        yield MemoryBackend()
        return
    backend = RedisBackend(request.getfixturevalue("redis_url"))
    yield backend
    backend.close()


@pytest.fixture
def redis_backend(redis_url: str) -> Iterator[RedisBackend]:
    """Give an empty Redis."""
    backend = RedisBackend(redis_url)
    yield backend
    backend.close()


@pytest.fixture
def own_redis(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RedisServer]:
    """Give a Redis that this test alone may stop, break and start again."""
    with RedisServer(tmp_path_factory.mktemp("own-redis"), own_port()) as server:
        yield server


@pytest.fixture
def own_backend(own_redis: RedisServer) -> Iterator[RedisBackend]:
    """Give the queues in a Redis of this test alone."""
    backend = RedisBackend(own_redis.url)
    yield backend
    backend.close()
