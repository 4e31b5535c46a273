"""A state is looked at while the cluster works: what it consists of comes and goes by itself."""

from contextlib import closing

import pytest
import redis
from kazoo.client import KazooClient

from pyspider_zk.cluster.tree import Tree
from pyspider_zk.cluster.weighing import SlotRates
from pyspider_zk.config import Settings
from tests.attack.state import keys, znodes


@pytest.mark.redis
@pytest.mark.parametrize("kind", ["string", "stream"])
def test_a_key_that_goes_while_the_keys_are_looked_at_is_left_out(
    redis_url: str, kind: str
) -> None:
    with closing(redis.Redis.from_url(redis_url)) as client:
        for name in ("a", "b"):
            if kind == "string":
                client.set(name, "value")
            else:
                client.xadd(name, {"field": "value"})
        looking = keys(client)

        name, _ = next(looking)
        assert name == "a"
        client.delete("b")

        assert list(looking) == []


@pytest.mark.redis
def test_a_stream_that_goes_once_its_kind_is_known_is_as_an_empty_one(redis_url: str) -> None:
    with closing(redis.Redis.from_url(redis_url)) as client:
        client.xadd("a", {"field": "value"})
        kind_of = client.type

        def kind_and_gone(key: bytes) -> bytes:
            kind: bytes = kind_of(key)
            client.delete(key)
            return kind

        client.type = kind_and_gone  # type: ignore[method-assign]
        assert [name for name, _ in keys(client)] == ["a"]


@pytest.mark.zk
def test_the_leader_may_write_the_rates_anew_but_nobody_may_change_them(
    cluster_settings: Settings,
) -> None:
    path, rates = Tree(cluster_settings.root).slot_rates, SlotRates({1: 2})
    client = KazooClient(cluster_settings.hosts)
    client.start()
    with closing(client):
        client.create(path, rates.encode(), makepath=True)
        before = dict(znodes(client, path))

        client.set(path, rates.encode())
        assert dict(znodes(client, path)) == before
        client.set(path, SlotRates({1: 3}).encode())
        assert dict(znodes(client, path)) != before
        client.stop()
