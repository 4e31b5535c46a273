"""What workers had taken goes back once they are missing, and not while they are there."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_taken import RedisTaken, RedisWorkQueues
from pyspider_zk.queues.redis_typed_keys import TypedKeys
from pyspider_zk.scheduling.redelivery import Redelivery

pytestmark = pytest.mark.redis

NAME = "scheduler2fetcher"


class Fetched:
    """Fetchers that have tasks, and one who looks after them.

    Attributes:
        present: the names of those who are registered.
        leads: whether who looks is the leader.
    """

    def __init__(self, keys: TypedKeys) -> None:
        self.present: set[str] = set()
        self.leads = True
        self._keys = keys
        takers = RedisWorkQueues(keys)
        self.redelivery = Redelivery(lambda: self.leads, lambda: {*self.present}, takers)

    def fetcher(self, name: str) -> list[bytes]:
        """Let a fetcher register and take a task."""
        self.present.add(name)
        return [each.raw for each in RedisTaken(self._keys, NAME, name).take(1, [])]

    def left(self) -> Any:
        with self._keys.link.client() as client:
            return client.lrange(NAME, 0, -1)


@pytest.fixture
def fetched(redis_url: str) -> Iterator[Fetched]:
    link = RedisLink(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        client.rpush(NAME, b"a", b"b", b"c")
    yield Fetched(TypedKeys(link))
    link.close()


def test_what_one_has_goes_back_who_is_missing_twice(fetched: Fetched) -> None:
    assert [fetched.fetcher("living"), fetched.fetcher("dead")] == [[b"a"], [b"b"]]
    fetched.redelivery.look()
    fetched.present.remove("dead")
    fetched.redelivery.look()
    assert fetched.left() == [b"c"], "its session may begin anew"
    fetched.redelivery.look()
    assert fetched.left() == [b"b", b"c"]
    fetched.redelivery.look()
    fetched.redelivery.look()
    assert fetched.left() == [b"b", b"c"]


def test_one_who_comes_again_in_between_keeps_what_it_has(fetched: Fetched) -> None:
    fetched.fetcher("back")
    for present in (set[str](), {"back"}, set[str]()):
        fetched.present = present
        fetched.redelivery.look()
    assert fetched.left() == [b"b", b"c"]


@pytest.mark.parametrize("between", [True, False])
def test_who_does_not_lead_gives_nothing_back(fetched: Fetched, between: bool) -> None:
    fetched.fetcher("dead")
    fetched.present.clear()
    fetched.redelivery.look()
    fetched.leads = False
    fetched.redelivery.look()
    fetched.leads = between
    fetched.redelivery.look()
    assert fetched.left() == [b"b", b"c"]


def test_it_looks_again_and_again(fetched: Fetched, eventually: Callable[..., None]) -> None:
    fetched.fetcher("dead")
    fetched.present.clear()
    fetched.redelivery.loop.start()
    eventually(lambda: fetched.left() == [b"a", b"b", b"c"])
    fetched.redelivery.loop.stop(1.0)
