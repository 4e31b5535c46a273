"""From a URL to queues."""

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_streams import RedisSlotQueues

REMEDY = "--message-queue redis://"


def test_a_redis_url_gives_redis_queues_without_any_connection() -> None:
    queues = connect("redis://:secret@no-such-host.invalid:1/0", limit=100, slots=256)
    assert isinstance(queues.slot_queues, RedisSlotQueues)
    queues.close()


@pytest.mark.parametrize("url", [None, "", "amqp://u:secret@host/", "beanstalk://h", "host:6379"])
def test_a_queue_that_processes_cannot_share_names_the_remedy(url: str | None) -> None:
    with pytest.raises(ConfigError, match=REMEDY) as caught:
        connect(url, limit=100, slots=256)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://u:secret@host/", "amqp:// is not supported, redis:// is"),
        ("beanstalk://h", "beanstalk:// is not supported, redis:// is"),
        ("host:6379", "its URL has no scheme, redis:// is supported"),
    ],
)
def test_a_scheme_that_is_not_supported_is_named_with_the_one_that_is(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        connect(url, limit=100, slots=256)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("redis://", "host is missing"),
        ("redis://:secret@:6379/0", "host is missing"),
        ("redis://:secret@host:port/0", "not written correctly"),
        ("redis://:secret@host:99999/0", "not written correctly"),
        ("redis://[::1/0", "not written correctly"),
        ("redis://host:6379/zero", "database"),
        ("redis://one:6379,two:6379", "Redis Cluster"),
    ],
)
def test_a_redis_url_that_cannot_work_says_why(url: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as caught:
        connect(url, limit=0, slots=256)
    assert REMEDY in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://host", "host:6379"),
        ("redis://host:7000", "host:7000"),
        ("redis://user:secret@host:7000/3", "host:7000"),
        ("redis+sentinel://:secret@one,two:1/crawl", "crawl (sentinels one:26379, two:1)"),
    ],
)
def test_a_link_shows_its_address_only(url: str, address: str) -> None:
    assert repr(RedisLink(url)) == f"RedisLink({address})"
