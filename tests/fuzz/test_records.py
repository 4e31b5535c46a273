"""Mutated records mean the same in any cluster."""

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest
from kazoo.client import KazooClient

from pyspider_zk.local.services import ZooKeeperServer
from tests.fuzz import records
from tests.fuzz.inputs import Input, Surface

LEASE = b'{"projects":0}'

pytestmark = pytest.mark.zk


@pytest.fixture
def client(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    made = KazooClient(zookeeper.address)
    made.start()
    with closing(made):
        yield made
        made.stop()


def _surface(client: KazooClient, root: str, member: str) -> Surface:
    client.create(f"{root}/members/{member}", LEASE, makepath=True)
    return records.surface(client, root, records.snapshot(client, root))


def _over(surface: Surface) -> Input:
    """Return an input that is written over the member's record."""
    chance = Random(1)  # noqa: S311 - no secret
    while True:
        made = surface.draw(chance)
        if made.parts["how"] == "over" and "[member 0]" in made.parts["path"]:
            return made


def test_an_input_is_put_in_the_same_place_of_another_cluster(
    client: KazooClient, zk_root: str
) -> None:
    first = _surface(client, f"{zk_root}-a", "0-aaaaaaaaaaaa")
    second = _surface(client, f"{zk_root}-b", "0-bbbbbbbbbbbb")
    made = _over(first)

    answers = [surface.send(made).kind for surface in (first, second)]

    assert answers == ["written over"] * 2
    data, _ = client.get(f"{zk_root}-b/members/0-bbbbbbbbbbbb")
    assert data == client.get(f"{zk_root}-a/members/0-aaaaaaaaaaaa")[0] != LEASE
    first.rest()
    assert client.get(f"{zk_root}-a/members/0-aaaaaaaaaaaa")[0] == LEASE
