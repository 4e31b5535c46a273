"""What each write to ZooKeeper checks and counts, and that these tests notice if it does not.

Time is an argument here, and faults are put between a decision and its write by connections that
do something else first; ZooKeeper itself is real.
"""

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from kazoo.exceptions import BadVersionError, NoNodeError
from zk_harness import record

from pyspider_zk.config import Settings
from pyspider_zk.core.names import Tree
from pyspider_zk.core.ownership import Rules, candidate_of
from pyspider_zk.core.records import Assignment, Load, Meta, Slot
from pyspider_zk.errors import SessionLost
from pyspider_zk.zookeeper.connection import Connection, Step
from pyspider_zk.zookeeper.leadership import Leadership
from pyspider_zk.zookeeper.membership import Membership
from pyspider_zk.zookeeper.meta import ensure_cluster

pytestmark = pytest.mark.zk

LEASE = 4.0
TIMES = Rules(lease=LEASE, budget=0.5)


class Hooked(Connection):
    """A connection with something that happens just before or after the next transaction."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None
    before_find_all: Callable[[], object] | None = None

    def multi(self, *steps: Step) -> list[object]:
        hook, self.before = self.before, None
        if hook:
            hook()
        results = super().multi(*steps)
        hook, self.after = self.after, None
        if hook:
            hook()
        return results

    def find_all(self, paths):
        hook, self.before_find_all = self.before_find_all, None
        if hook:
            hook()
        return super().find_all(paths)


class Bench:
    """Two members without threads, on one clock that the test sets."""

    def __init__(self, settings: Settings) -> None:
        self.now = 1000.0
        self.tree = Tree(settings.root)
        self.links = [Hooked(settings), Hooked(settings)]
        for link in self.links:
            link.start()
        ensure_cluster(self.links[0], self.tree, Meta(settings.slots))
        self.a, self.b = (self._member(link) for link in self.links)
        self.leader = Leadership(self.links[1], self.tree, TIMES, lambda: self.now, lambda _: None)
        for member in (self.a, self.b):
            member.join(record())
        self.lead()

    def _member(self, link: Connection) -> Membership:
        return Membership(link, self.tree, TIMES, lambda: self.now, lambda _: None)

    def lead(self) -> None:
        assert self.b.id is not None
        self.leader.lead(self.b.id, dict)

    def let_pass(self, seconds: float) -> None:
        self.now += seconds

    def table(self) -> tuple[Assignment, int]:
        data, version = self.links[0].get(self.tree.assignment)
        return Assignment.decode(data), version

    def write_table(self, **changes: object) -> None:
        data, version = self.table()
        self.links[1].set(self.tree.assignment, replace(data, **changes).encode(), version)

    def until_a_is_nearly_dead(self) -> None:
        """Go on until one more look makes A's lease too old."""
        for _ in range(4):
            self.let_pass(LEASE / 4)
            self.b.renew(Load())
            self.lead()
        self.let_pass(LEASE / 4)
        self.b.renew(Load())

    def make_a_next_in_line(self) -> Callable[[], None]:
        """Let A watch B until B is nearly dead; return A's next step."""
        line = Leadership(self.links[0], self.tree, TIMES, lambda: self.now, lambda _: None)
        assert self.a.id is not None
        step = partial(line.lead, self.a.id, dict)
        for _ in range(5):
            step()
            self.let_pass(LEASE / 4)
        self.let_pass(LEASE / 8)
        return step

    def stop(self) -> None:
        for link in self.links:
            link.stop()


@contextmanager
def bench_of(settings: Settings) -> Iterator[Bench]:
    bench = Bench(settings)
    try:
        yield bench
    finally:
        bench.stop()


def the_lease_counts_from_the_sending(bench: Bench) -> None:
    sent = bench.now
    bench.links[0].after = lambda: bench.let_pass(3.0)

    bench.a.renew(Load())

    assert bench.a.view.lease_until == sent + LEASE - 0.5


def a_renewal_that_was_refused_counts_from_the_sending_of_the_next(bench: Bench) -> None:
    bench.write_table(epoch=77)
    bench.links[0].before = lambda: bench.let_pass(1.0)
    sent = bench.now + 1.0

    bench.a.renew(Load())

    assert bench.a.view.lease_until == sent + LEASE - 0.5


def a_renewal_needs_the_present_assignment(bench: Bench) -> None:
    bench.a.renew(Load())
    bench.write_table(slots=(Slot(bench.a.id, 9), Slot(bench.b.id, 9)))

    bench.a.renew(Load())

    assert bench.a.view.owned == {0: 9}


def a_renewal_needs_the_members_own_node(bench: Bench) -> None:
    bench.links[1].delete(bench.tree.member(bench.a.id))

    with raises(SessionLost):
        bench.a.renew(Load())


def a_renewal_is_seen_in_the_version_of_the_lease(bench: Bench) -> None:
    before = bench.links[0].get(bench.tree.lease(bench.a.id))[1]

    bench.a.renew(Load(3, 4))

    data, version = bench.links[0].get(bench.tree.lease(bench.a.id))
    assert version == before + 1
    assert Load.decode(data) == Load(3, 4)


def a_member_that_renews_in_time_for_the_write_keeps_its_slots(bench: Bench) -> None:
    bench.until_a_is_nearly_dead()
    before = bench.table()
    bench.links[1].before = lambda: bench.a.renew(Load())

    with raises(BadVersionError):
        bench.lead()

    assert bench.table() == before


def a_member_that_does_not_renew_loses_its_slots(bench: Bench) -> None:
    bench.until_a_is_nearly_dead()

    bench.lead()

    assert {row.owner for row in bench.table()[0].slots} == {bench.b.id}


def a_version_is_stamped_after_it_was_read(bench: Bench) -> None:
    def slow() -> None:
        bench.let_pass(LEASE / 4)
        bench.a.renew(Load())

    bench.links[1].before_find_all = slow
    bench.lead()

    assert bench.a.id is not None
    assert bench.leader._stamps[bench.a.id].first_seen == bench.now


def a_leader_that_could_not_look_for_long_takes_nobody_for_dead(bench: Bench) -> None:
    bench.lead()
    before = bench.table()
    bench.let_pass(10 * LEASE)
    bench.b.renew(Load())

    bench.lead()

    assert bench.table() == before


def a_leader_that_renews_in_time_is_not_deposed(bench: Bench) -> None:
    next_in_line = bench.make_a_next_in_line()
    bench.links[0].before = lambda: bench.b.renew(Load())

    with raises(BadVersionError):
        next_in_line()


def a_leader_that_does_not_renew_is_deposed(bench: Bench) -> None:
    before = bench.leader._candidacy
    next_in_line = bench.make_a_next_in_line()

    next_in_line()
    bench.lead()

    assert bench.leader._candidacy != before
    assert not bench.leader.leading


def who_stands_twice_leads_from_the_place_in_front(bench: Bench) -> None:
    member = candidate_of(bench.leader._candidacy)
    for _ in range(3):
        bench.links[1].create(f"{bench.tree.election}/{member}-", ephemeral=True, sequence=True)
    first = bench.leader._candidacy

    bench.lead()

    assert bench.leader.leading
    assert [
        name for name in bench.links[0].children(bench.tree.election) if str(member) in name
    ] == [first]


def who_leads_no_more_writes_nothing(bench: Bench) -> None:
    bench.until_a_is_nearly_dead()
    before = bench.table()
    candidacy = f"{bench.tree.election}/{bench.leader._candidacy}"
    bench.links[1].before = lambda: bench.links[0].delete(candidacy)

    with raises(NoNodeError):
        bench.lead()

    assert bench.table() == before


def a_leader_overwrites_nothing_it_has_not_read(bench: Bench) -> None:
    bench.until_a_is_nearly_dead()
    bench.links[1].before = lambda: bench.write_table(epoch=99)

    with raises(BadVersionError):
        bench.lead()

    assert bench.table()[0].epoch == 99


def a_leader_overwrites_nothing_it_has_not_read_even_at_version_zero(bench: Bench) -> None:
    bench.links[0].delete(bench.tree.assignment)
    bench.links[0].create(bench.tree.assignment, Assignment.vacant(2).encode())
    bench.links[1].before = lambda: bench.write_table(epoch=99)

    with raises(BadVersionError):
        bench.lead()

    assert bench.table()[0].epoch == 99


def a_lease_that_was_renewed_before_the_sweep_stays(bench: Bench) -> None:
    link, sleeper = bench.links[1], bench._member(bench.links[0])
    sleeper.join(record())
    bench.leader._stamp()
    bench.until_a_is_nearly_dead()
    bench.a.renew(Load())

    def meanwhile() -> None:
        sleeper.renew(Load())
        bench.links[0].delete(bench.tree.member(sleeper.id))

    # first the leases are read, then the members: it wakes up and loses its session in between
    link.before_find_all = lambda: setattr(link, "before_find_all", meanwhile)
    with suppress(BadVersionError):
        bench.lead()

    assert link.find(bench.tree.lease(sleeper.id)) is not None


def a_registration_whose_reply_was_lost_is_found(bench: Bench) -> None:
    lost = bench._member(bench.links[0])
    bench.links[0].after = fail
    with pytest.raises(ConnectionError):
        lost.join(record())

    lost.join(record())

    numbers = sorted(name.partition("-")[0] for name in bench.links[0].children(bench.tree.members))
    assert numbers == ["0", "1", "2"]


def a_slot_that_was_released_is_told_at_its_epoch(bench: Bench) -> None:
    bench.write_table(slots=(Slot(bench.a.id, 9, bench.b.id), Slot(bench.a.id, 8)))
    bench.a.renew(Load())
    bench.a.release({0: 9, 1: 8})
    bench.a.acknowledge()

    assert bench.links[0].get(bench.tree.ack(bench.a.id))[0] == b'{"0": 9}'
    assert (bench.a.view.owned, bench.a.view.releasing) == ({1: 8}, {})


RULES = [
    the_lease_counts_from_the_sending,
    a_renewal_that_was_refused_counts_from_the_sending_of_the_next,
    a_renewal_needs_the_present_assignment,
    a_renewal_needs_the_members_own_node,
    a_renewal_is_seen_in_the_version_of_the_lease,
    a_member_that_renews_in_time_for_the_write_keeps_its_slots,
    a_member_that_does_not_renew_loses_its_slots,
    a_version_is_stamped_after_it_was_read,
    a_leader_that_could_not_look_for_long_takes_nobody_for_dead,
    a_leader_that_renews_in_time_is_not_deposed,
    a_leader_that_does_not_renew_is_deposed,
    who_stands_twice_leads_from_the_place_in_front,
    who_leads_no_more_writes_nothing,
    a_leader_overwrites_nothing_it_has_not_read,
    a_leader_overwrites_nothing_it_has_not_read_even_at_version_zero,
    a_lease_that_was_renewed_before_the_sweep_stays,
    a_registration_whose_reply_was_lost_is_found,
    a_slot_that_was_released_is_told_at_its_epoch,
]

MUTATIONS = [
    (
        the_lease_counts_from_the_sending,
        (Membership, "renew", "before + self._rules", "self._clock() + self._rules"),
    ),
    (
        a_renewal_needs_the_present_assignment,
        (Membership, "renew", "check(self._tree.assignment, version),", ""),
    ),
    (
        a_renewal_needs_the_members_own_node,
        (Membership, "renew", "check(self._tree.member(member)),", ""),
    ),
    (
        a_member_that_renews_in_time_for_the_write_keeps_its_slots,
        (Leadership, "_write", "in decision.checks.items()", "in ()"),
    ),
    (
        a_version_is_stamped_after_it_was_read,
        (
            Leadership,
            "_stamp",
            "versions = self._versions(members)\n    now = self._clock()",
            "now = self._clock()\n    versions = self._versions(members)",
        ),
    ),
    (
        a_leader_that_could_not_look_for_long_takes_nobody_for_dead,
        (Leadership, "_stamp", "{} if blind else self._stamps", "self._stamps"),
    ),
    (
        a_leader_that_renews_in_time_is_not_deposed,
        (
            Leadership,
            "_depose_if_dead",
            "[check(self._tree.lease(member), stamp.version)] if stamp else []",
            "[]",
        ),
    ),
    (
        who_stands_twice_leads_from_the_place_in_front,
        (Leadership, "_standing", "mine[0] if mine", "mine[-1] if mine"),
    ),
    (
        who_leads_no_more_writes_nothing,
        (
            Leadership,
            "_write",
            '[check(f"{self._tree.election}/{self._candidacy}")]',
            "[]",
        ),
    ),
    (
        a_leader_overwrites_nothing_it_has_not_read_even_at_version_zero,
        (Leadership, "_write", ".encode(), version)", ".encode(), version or -1)"),
    ),
    (
        a_leader_overwrites_nothing_it_has_not_read,
        (Leadership, "_write", ".encode(), version)", ".encode())"),
    ),
    (
        a_lease_that_was_renewed_before_the_sweep_stays,
        (Leadership, "_sweep", "self._tree.lease(member), version", "self._tree.lease(member)"),
    ),
    (
        a_registration_whose_reply_was_lost_is_found,
        (Membership, "join", "self._standing() or ", ""),
    ),
    (
        a_slot_that_was_released_is_told_at_its_epoch,
        (Membership, "_show", "still_released(table, self.id, self._released)", "self._released"),
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(settings: Settings, rule: Callable[[Bench], None]):
    with bench_of(replace(settings, slots=2)) as bench:
        rule(bench)


@pytest.mark.parametrize(
    ("rule", "mutation"), MUTATIONS, ids=lambda item: getattr(item, "__name__", "")
)
def test_the_rule_fails_without_its_line(settings: Settings, monkeypatch, rule, mutation):
    with bench_of(replace(settings, slots=2)) as bench:
        mutate(monkeypatch, *mutation)
        with pytest.raises(AssertionError):
            rule(bench)


def mutate(monkeypatch, owner: type, name: str, old: str, new: str) -> None:
    """Replace one piece of a method's source."""
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert source.count(old) == 1, f"{name} does not contain {old!r} once"
    namespace = dict(vars(sys.modules[owner.__module__]))
    exec(source.replace(old, new), namespace)  # noqa: S102 - it is our own source
    monkeypatch.setattr(owner, name, namespace[name])


@contextmanager
def raises(expected: type[Exception]) -> Iterator[None]:
    """Like pytest.raises, but with an AssertionError, which mutations are caught by."""
    try:
        yield
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


def fail() -> None:
    raise ConnectionError
