"""The suite itself loses no message of the crawl that it disturbs."""

from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.poison.keys import shared_key

pytestmark = pytest.mark.redis
KEY = "scheduler2fetcher"
COMMANDS = 12  # more than a key takes to be taken away and put back


@pytest.mark.parametrize("kind", ["a text", "a hash", "a sorted set"])
@pytest.mark.parametrize("there_before", [True, False])
@pytest.mark.parametrize("place", range(COMMANDS))
def test_a_message_that_comes_between_two_commands_is_kept(
    redis_url: str, place: int, there_before: bool, kind: str
) -> None:
    with redis.Redis.from_url(redis_url) as crawl:
        sent = [b"before"] if there_before else []
        for message in sent:
            crawl.rpush(KEY, message)

        def send() -> None:
            try:
                crawl.rpush(KEY, b"meanwhile")
                sent.append(b"meanwhile")
            except redis.ResponseError:  # the wrong thing stands there: the crawl keeps it
                pass

        with disturbed(redis_url, place, send) as client:
            poison, grip = shared_key(KEY, kind, "a list"), SimpleNamespace(redis=client)
            poison.put(grip)  # type: ignore[arg-type]
            assert poison.mend is not None
            poison.mend(grip)  # type: ignore[arg-type]
        assert sorted(crawl.lrange(KEY, 0, -1)) == sorted(sent)


def disturbed(url: str, place: int, send: Any) -> redis.Redis:
    """Return a client; something is sent to the same Redis before its command of that place."""
    left = [place]

    class DisturbedConnection(redis.Connection):
        def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
            left[0] -= 1
            if left[0] == -1:
                send()
            super().send_packed_command(*args, **kwargs)

    pool = redis.ConnectionPool.from_url(url, connection_class=DisturbedConnection)
    return redis.Redis.from_pool(pool)
