"""Every error that ZooKeeper may answer, to every call that a member makes: it stays or comes back.

``-m soak`` puts every error into every call, which takes an hour; else it is one of each sort.
"""

from dataclasses import replace

import pytest
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    QuotaExceededError,
    SessionExpiredError,
    ThrottledOpError,
)

from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import Crew, expire
from tests.support.waiting import eventually
from tests.support.zk_faults import STEP, Refusal, Refusing, all_refusals

pytestmark = pytest.mark.zk

ENDS_A_SESSION = (SessionExpiredError, NoNodeError)
"""Nothing else may: it is over, or a znode of the member is gone."""

ONE_OF_EACH_SORT = [NoNodeError, NodeExistsError, QuotaExceededError]

WHILE_IT_RUNS = ["get", "children", "multi", STEP]
WHILE_IT_JOINS = ["get", "children", "exists", "create", "set", "delete", "sync", "multi", STEP]


class Sufferer:
    """One of two members, whose calls fail."""

    def __init__(self, crew: Crew, connection: Connection) -> None:
        self._crew = crew
        self._connection = connection
        self._tree = Tree(crew.settings.root)
        self.other, self.member = crew.start_and_share(2)
        self._refusing = Refusing(self.member.coordinator.connection)

    def while_it_runs(self, call: str, refusal: Refusal) -> None:
        """Let it fail twice in what it does while it runs; its slots wait for no other session."""
        before = self.member.member
        with self._refusing.refusing(call, refusal):
            self._stir()
            eventually(lambda: self._refusing.count >= 2, f"{call} fails with {refusal.__name__}")
        self._recovers()
        if not issubclass(refusal, ENDS_A_SESSION):
            assert self.member.member == before, f"{call}: {refusal.__name__} ended the session"

    def while_it_joins(self, call: str, refusal: Refusal) -> None:
        """End its session, and let it fail in what it does then; it joins all the same."""
        before = self.member.member
        with self._refusing.refusing(call, refusal):
            self._connection.set(self._tree.meta, b"junk")  # so that it has something to set
            expire(self.member.coordinator.connection)
            eventually(lambda: self._refusing.count >= 2 or self._has_joined_since(before), call)
        eventually(lambda: self._has_joined_since(before), f"{call}: {refusal.__name__}: joining")
        self._recovers()

    def loses_its_lease(self, call: str, refusal: Refusal) -> None:
        """Let it fail until the other has all slots."""
        with self._refusing.refusing(call, refusal):
            self._crew.shared_by(self.other)
        self._recovers()

    def renews_although(self, call: str, refusal: Refusal, times: int) -> None:
        """Let it fail while it renews its lease so often."""
        with self._refusing.refusing(call, refusal):
            self._stir()
            eventually(lambda: self._refusing.count, call)
            for _ in range(times):
                self._renews()

    def _stir(self) -> None:
        """Make every member read something, and the leader decide."""
        Orders(self._connection, self._tree, "test").change(
            EventKind.SETTINGS, "", lambda known: replace(known, moves=known.moves + 1)
        )

    def _has_joined_since(self, before: object) -> bool:
        return self.member.coordinator.member not in (before, None)

    def _recovers(self) -> None:
        """Wait until it renews its lease and owns its slots; neither may have ended."""
        self._renews()
        self._crew.shared_by(self.other, self.member)
        assert not self._has_ended()

    def _renews(self) -> None:
        before = self._renewal()
        eventually(
            lambda: self._has_ended() or self._renewal() not in (before, None), "the next renewal"
        )
        assert not self._has_ended()

    def _renewal(self) -> tuple[MemberId, int] | None:
        """Return the member and the version of its lease."""
        member, versions = self.member.coordinator.member, self._crew.cluster().renewals
        return (member, versions[member]) if member and member in versions else None

    def _has_ended(self) -> bool:
        both = (self.member, self.other)
        return any(one.failure or one.coordinator._loop.ends for one in both)


@pytest.fixture
def sufferer(crew: Crew, connection: Connection) -> Sufferer:
    """Give a member of a cluster of two."""
    return Sufferer(crew, connection)


@pytest.mark.parametrize("call", WHILE_IT_RUNS)
def test_an_error_of_each_sort_ends_no_member_that_runs(sufferer: Sufferer, call: str) -> None:
    for refusal in ONE_OF_EACH_SORT:
        sufferer.while_it_runs(call, refusal)


@pytest.mark.parametrize("refusal", ONE_OF_EACH_SORT)
def test_an_error_of_each_sort_ends_no_member_that_joins(
    sufferer: Sufferer, refusal: Refusal
) -> None:
    for call in ["get", "create", "multi"]:
        sufferer.while_it_joins(call, refusal)


@pytest.mark.parametrize("refusal", [BadVersionError, QuotaExceededError])
def test_who_cannot_renew_loses_its_slots_until_it_can(
    sufferer: Sufferer, refusal: Refusal
) -> None:
    sufferer.loses_its_lease("multi", refusal)


@pytest.mark.parametrize("refusal", [NoAuthError, ThrottledOpError])
def test_what_cannot_be_read_costs_no_lease(sufferer: Sufferer, refusal: Refusal) -> None:
    before, slots = sufferer.member.member, sufferer.member.open

    sufferer.renews_although("get", refusal, times=10)

    assert sufferer.member.member == before
    assert sufferer.member.open == slots


@pytest.mark.soak
@pytest.mark.parametrize("call", WHILE_IT_RUNS)
def test_no_error_ends_a_member_that_runs(sufferer: Sufferer, call: str) -> None:
    for refusal in all_refusals():
        sufferer.while_it_runs(call, refusal)


@pytest.mark.soak
@pytest.mark.parametrize("call", WHILE_IT_JOINS)
def test_no_error_ends_a_member_that_joins(sufferer: Sufferer, call: str) -> None:
    for refusal in all_refusals():
        sufferer.while_it_joins(call, refusal)


@pytest.mark.soak
@pytest.mark.parametrize("call", ["multi", STEP])
def test_no_error_opens_a_fence_at_two(sufferer: Sufferer, call: str) -> None:
    for refusal in all_refusals():
        sufferer.loses_its_lease(call, refusal)
