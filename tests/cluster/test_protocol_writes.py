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

import pytest
from kazoo.exceptions import BadVersionError, NoNodeError

from pyspider_zk.cluster import leader, membership
from pyspider_zk.cluster.leader import Leadership
from pyspider_zk.cluster.membership import Membership
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.reader import Table
from pyspider_zk.cluster.records import Assignment, Load, Meta, Slot
from pyspider_zk.cluster.rules import NOTHING, Rules, View
from pyspider_zk.cluster.tree import Tree, candidate_of
from pyspider_zk.config import Settings
from pyspider_zk.errors import SessionLost
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.steps import Step
from pyspider_zk.zookeeper.unreadable import Unreadable
from tests.support.crew import record

pytestmark = pytest.mark.zk

LEASE = 4.0
TIMES = Rules(lease=LEASE, budget=0.5)


class Hooked(Connection):
    """A connection with something that happens just before or after the next transaction."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None
    before_leases: Callable[[], object] | None = None

    def multi(self, *steps: Step) -> list[object]:
        hook, self.before = self.before, None
        if hook:
            hook()
        results = super().multi(*steps)
        hook, self.after = self.after, None
        if hook:
            hook()
        return results

    def look(self, znodes, parents=()):
        if any("/leases/" in path for path, _ in znodes):
            hook, self.before_leases = self.before_leases, None
            if hook:
                hook()
        return super().look(znodes, parents)


class WritesBench:
    """Two members without threads, on one clock that the test sets."""

    def __init__(self, settings: Settings) -> None:
        self.now = 1000.0
        self.tree = Tree(settings.root)
        self.links = [Hooked(settings), Hooked(settings)]
        for link in self.links:
            link.start()
        ensure_cluster(self.links[0], self.tree, Meta(settings.slots))
        self.a, self.b = (self._member(link) for link in self.links)
        self.leader = self._leadership(self.links[1])
        for member in (self.a, self.b):
            member.join(record())
        self.b.renew(Load())
        self.lead()

    def _table(self) -> Table:
        return Table(self.tree.assignment, 2, Unreadable())

    def _leadership(self, link: Connection) -> Leadership:
        return Leadership(
            *(link, self.tree, TIMES, lambda: self.now, lambda _: None),
            *(self._table(), lambda: None),
        )

    def _member(self, link: Connection) -> Membership:
        return Membership(link, self.tree, TIMES, lambda: self.now, lambda _: None, self._table())

    def lead(self) -> None:
        assert self.b.id is not None
        self.leader.lead(self.b.id, dict, self.b.hold)

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
        line = self._leadership(self.links[0])

        def step() -> None:
            assert self.a.id is not None
            line.lead(self.a.id, dict, self.a.hold)

        for _ in range(5):
            self.a.renew(Load())
            step()
            self.let_pass(LEASE / 4)
        self.a.renew(Load())
        self.let_pass(LEASE / 8)
        return step

    def stop(self) -> None:
        for link in self.links:
            link.stop()


@contextmanager
def bench_of(settings: Settings) -> Iterator[WritesBench]:
    bench = WritesBench(settings)
    try:
        yield bench
    finally:
        bench.stop()


def the_lease_counts_from_the_sending(bench: WritesBench) -> None:
    sent = bench.now
    bench.links[0].after = lambda: bench.let_pass(3.0)

    bench.a.renew(Load())

    assert bench.a.view.lease_until == sent + LEASE - 0.5


def a_lease_that_gets_shorter_does_so_before_it_is_sent(bench: WritesBench) -> None:
    bench.a.renew(Load())
    bench.a.rules = replace(TIMES, lease=LEASE / 2)
    bench.links[0].after = fail

    with pytest.raises(ConnectionError):
        bench.a.renew(Load())  # it was written, so others go by the shorter one

    assert bench.a.view.lease_until == bench.now + LEASE / 2 - 0.5
    assert bench.a.hold.until == bench.a.view.lease_until


def a_renewal_that_was_refused_counts_from_the_sending_of_the_next(bench: WritesBench) -> None:
    bench.write_table(epoch=77)
    bench.links[0].before = lambda: bench.let_pass(1.0)
    sent = bench.now + 1.0

    bench.a.renew(Load())

    assert bench.a.view.lease_until == sent + LEASE - 0.5


def a_renewal_needs_the_present_assignment(bench: WritesBench) -> None:
    bench.a.renew(Load())
    bench.write_table(slots=(Slot(bench.a.id, 9), Slot(bench.b.id, 9)))

    bench.a.renew(Load())

    assert bench.a.view.owned == {0: 9}


def a_renewal_needs_the_members_own_node(bench: WritesBench) -> None:
    bench.links[1].delete(bench.tree.member(bench.a.id))

    with raises(SessionLost):
        bench.a.renew(Load())


def who_leaves_shuts_the_fence_before_the_lease_is_gone(bench: WritesBench) -> None:
    bench.a.renew(Load())
    seen: list[View] = []
    bench.links[0].before = lambda: seen.append(bench.a.view)

    bench.a.leave()

    assert seen == [NOTHING]


def a_renewal_is_seen_in_the_version_of_the_lease(bench: WritesBench) -> None:
    before = bench.links[0].get(bench.tree.lease(bench.a.id))[1]

    bench.a.renew(Load(3, 4))

    data, version = bench.links[0].get(bench.tree.lease(bench.a.id))
    assert version == before + 1
    assert Load.decode(data) == Load(3, 4, lease=LEASE)


def a_member_that_renews_in_time_for_the_write_keeps_its_slots(bench: WritesBench) -> None:
    bench.until_a_is_nearly_dead()
    before = bench.table()
    bench.links[1].before = lambda: bench.a.renew(Load())

    with raises(BadVersionError):
        bench.lead()

    assert bench.table() == before


def a_lease_tells_how_long_it_lasts(bench: WritesBench) -> None:
    new = bench._member(bench.links[0])
    new.join(record())
    bench.a.renew(Load())

    for member in (bench.a, new):
        data, _ = bench.links[0].get(bench.tree.lease(member.id))
        assert Load.decode(data).lease == LEASE


def a_member_of_a_longer_lease_is_judged_by_its_own(bench: WritesBench) -> None:
    bench.a.rules = replace(TIMES, lease=2 * LEASE)
    bench.a.renew(Load())
    bench.lead()
    bench.until_a_is_nearly_dead()
    before = bench.table()

    bench.lead()

    assert bench.table() == before


def a_member_that_does_not_renew_loses_its_slots(bench: WritesBench) -> None:
    bench.until_a_is_nearly_dead()

    bench.lead()

    assert {row.owner for row in bench.table()[0].slots} == {bench.b.id}


def a_version_is_stamped_after_it_was_read(bench: WritesBench) -> None:
    def slow() -> None:
        bench.let_pass(LEASE / 4)
        bench.a.renew(Load())

    bench.links[1].before_leases = slow
    bench.lead()

    assert bench.a.id is not None
    assert bench.leader._stamps[bench.a.id].first_seen == bench.now


def a_leader_that_could_not_look_for_long_takes_nobody_for_dead(bench: WritesBench) -> None:
    bench.lead()
    before = bench.table()
    bench.let_pass(10 * LEASE)
    bench.b.renew(Load())

    bench.lead()

    assert bench.table() == before


def a_leader_that_renews_in_time_is_not_deposed(bench: WritesBench) -> None:
    next_in_line = bench.make_a_next_in_line()
    bench.links[0].before = lambda: bench.b.renew(Load())

    with raises(BadVersionError):
        next_in_line()


def a_leader_that_does_not_renew_is_deposed(bench: WritesBench) -> None:
    before = bench.leader._candidacy
    next_in_line = bench.make_a_next_in_line()

    next_in_line()
    bench.lead()

    assert bench.leader._candidacy != before
    assert not bench.leader.leading


def who_has_no_lease_does_not_depose(bench: WritesBench) -> None:
    next_in_line = bench.make_a_next_in_line()
    bench.links[1].delete(bench.tree.lease(bench.b.id))
    bench.let_pass(LEASE)
    line = bench.links[0].children(bench.tree.election)

    next_in_line()

    assert bench.links[0].children(bench.tree.election) == line


def who_has_no_lease_does_not_stand_again(bench: WritesBench) -> None:
    bench.links[0].delete(f"{bench.tree.election}/{bench.leader._candidacy}")
    bench.let_pass(LEASE)

    bench.lead()

    assert bench.links[0].children(bench.tree.election) == []


def time_counts_while_the_leaders_own_lease_holds(bench: WritesBench) -> None:
    bench.lead()
    for _ in range(4):
        for _ in range(3):
            bench.let_pass(LEASE / 4)
            bench.b.renew(Load())
        bench.lead()

    assert {row.owner for row in bench.table()[0].slots} == {bench.b.id}


def one_look_counts_half_a_lease_at_most(bench: WritesBench) -> None:
    bench.lead()
    before = bench.table()
    for _ in range(4):
        bench.let_pass(LEASE / 2)
        bench.b.renew(Load())

    bench.lead()

    assert bench.table() == before


def nothing_is_renewed_against_a_table_that_cannot_be_read(bench: WritesBench) -> None:
    bench.a.renew(Load())
    before = bench.a.view
    bench.links[1].set(bench.tree.assignment, b"junk")
    bench.let_pass(LEASE / 4)

    bench.a.renew(Load())

    assert bench.a.view == before


def an_open_release_is_told_with_each_renewal(bench: WritesBench) -> None:
    bench.write_table(slots=(Slot(bench.a.id, 9, bench.b.id), Slot(bench.a.id, 8)))
    bench.a.renew(Load())
    bench.a.release({0: 9})
    bench.a.acknowledge()
    bench.links[1].set(bench.tree.ack(bench.a.id), b"junk")

    bench.a.renew(Load())

    assert bench.links[0].get(bench.tree.ack(bench.a.id))[0] == b'{"0":9}'


def who_stands_twice_leads_from_the_place_in_front(bench: WritesBench) -> None:
    member = candidate_of(bench.leader._candidacy)
    for _ in range(3):
        bench.links[1].create(f"{bench.tree.election}/{member}-", ephemeral=True, sequence=True)
    first = bench.leader._candidacy

    bench.lead()

    assert bench.leader.leading
    assert [
        name for name in bench.links[0].children(bench.tree.election) if str(member) in name
    ] == [first]


def who_leads_no_more_writes_nothing(bench: WritesBench) -> None:
    bench.until_a_is_nearly_dead()
    before = bench.table()
    candidacy = f"{bench.tree.election}/{bench.leader._candidacy}"
    bench.links[1].before = lambda: bench.links[0].delete(candidacy)

    with raises(NoNodeError):
        bench.lead()

    assert bench.table() == before


def a_leader_overwrites_nothing_it_has_not_read(bench: WritesBench) -> None:
    bench.until_a_is_nearly_dead()
    bench.links[1].before = lambda: bench.write_table(epoch=99)

    with raises(BadVersionError):
        bench.lead()

    assert bench.table()[0].epoch == 99


def a_leader_overwrites_nothing_it_has_not_read_even_at_version_zero(bench: WritesBench) -> None:
    bench.links[0].delete(bench.tree.assignment)
    bench.links[0].create(bench.tree.assignment, Assignment.vacant(2).encode())
    bench.links[1].before = lambda: bench.write_table(epoch=99)

    with raises(BadVersionError):
        bench.lead()

    assert bench.table()[0].epoch == 99


def a_lease_that_was_renewed_before_the_sweep_stays(bench: WritesBench) -> None:
    link, sleeper = bench.links[1], bench._member(bench.links[0])
    sleeper.join(record())
    judged = link.get(bench.tree.lease(sleeper.id))[1]
    sleeper.renew(Load())

    with suppress(BadVersionError):
        bench.leader._sweep({sleeper.id: judged})

    assert link.find(bench.tree.lease(sleeper.id)) is not None


def a_registration_whose_reply_was_lost_is_found(bench: WritesBench) -> None:
    lost = bench._member(bench.links[0])
    bench.links[0].after = fail
    with pytest.raises(ConnectionError):
        lost.join(record())

    lost.join(record())

    numbers = sorted(name.partition("-")[0] for name in bench.links[0].children(bench.tree.members))
    assert numbers == ["0", "1", "2"]


def a_slot_that_was_released_is_told_at_its_epoch(bench: WritesBench) -> None:
    bench.write_table(slots=(Slot(bench.a.id, 9, bench.b.id), Slot(bench.a.id, 8)))
    bench.a.renew(Load())
    bench.a.release({0: 9, 1: 8})
    bench.a.acknowledge()

    assert bench.links[0].get(bench.tree.ack(bench.a.id))[0] == b'{"0":9}'
    assert (bench.a.view.owned, bench.a.view.releasing) == ({1: 8}, {})


RULES = [
    the_lease_counts_from_the_sending,
    a_lease_that_gets_shorter_does_so_before_it_is_sent,
    a_renewal_that_was_refused_counts_from_the_sending_of_the_next,
    a_renewal_needs_the_present_assignment,
    a_renewal_needs_the_members_own_node,
    who_leaves_shuts_the_fence_before_the_lease_is_gone,
    a_renewal_is_seen_in_the_version_of_the_lease,
    a_member_that_renews_in_time_for_the_write_keeps_its_slots,
    a_lease_tells_how_long_it_lasts,
    a_member_of_a_longer_lease_is_judged_by_its_own,
    a_member_that_does_not_renew_loses_its_slots,
    a_version_is_stamped_after_it_was_read,
    a_leader_that_could_not_look_for_long_takes_nobody_for_dead,
    a_leader_that_renews_in_time_is_not_deposed,
    a_leader_that_does_not_renew_is_deposed,
    who_has_no_lease_does_not_depose,
    who_has_no_lease_does_not_stand_again,
    time_counts_while_the_leaders_own_lease_holds,
    one_look_counts_half_a_lease_at_most,
    nothing_is_renewed_against_a_table_that_cannot_be_read,
    an_open_release_is_told_with_each_renewal,
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
        (
            Membership,
            "renew",
            "self._hold_until(before + self.rules",
            "self._hold_until(self._clock() + self.rules",
        ),
    ),
    (
        a_lease_that_gets_shorter_does_so_before_it_is_sent,
        (
            Membership,
            "renew",
            "self._hold_until(min(self.hold.until, before + self.rules.open_for))",
            "",
        ),
    ),
    (
        a_renewal_needs_the_present_assignment,
        (membership, "renew_steps", "Check(tree.assignment, version),", ""),
    ),
    (
        a_renewal_needs_the_members_own_node,
        (membership, "renew_steps", "Check(tree.member(member)),", ""),
    ),
    (
        who_leaves_shuts_the_fence_before_the_lease_is_gone,
        (Membership, "leave", "member, self.view = self.id, NOTHING", "member = self.id"),
    ),
    (
        a_member_that_renews_in_time_for_the_write_keeps_its_slots,
        (leader, "assign_steps", "in decision.checks.items()", "in ()"),
    ),
    (
        a_lease_tells_how_long_it_lasts,
        (Membership, "renew", "load = replace(load, lease=self.rules.lease)", ""),
    ),
    (
        a_lease_tells_how_long_it_lasts,
        (Membership, "_take_number", "Load(lease=self.rules.lease)", "Load()"),
    ),
    (
        a_member_of_a_longer_lease_is_judged_by_its_own,
        (Leadership, "_stamp", "each.lease for", "self._rules.lease for"),
    ),
    (
        a_version_is_stamped_after_it_was_read,
        (
            Leadership,
            "_stamp",
            "data = self._connection.look([*leases, *asks]).data\n    now = self._clock()",
            "now = self._clock()\n    data = self._connection.look([*leases, *asks]).data",
        ),
    ),
    (
        a_leader_that_could_not_look_for_long_takes_nobody_for_dead,
        (Leadership, "_counted", "return {}", "return self._stamps"),
    ),
    (
        a_leader_that_renews_in_time_is_not_deposed,
        (
            leader,
            "depose_steps",
            "[Check(tree.lease(member), stamp.version)] if stamp else []",
            "[]",
        ),
    ),
    (
        who_has_no_lease_does_not_depose,
        (Leadership, "lead", "elif place and holds", "elif place"),
    ),
    (
        who_has_no_lease_does_not_stand_again,
        (Leadership, "_line", "is None and may_stand", "is None"),
    ),
    (
        time_counts_while_the_leaders_own_lease_holds,
        (Leadership, "_counted", "hold.since > self._looked", "now - self._looked > 2.0"),
    ),
    (
        one_look_counts_half_a_lease_at_most,
        (Leadership, "_counted", "now - self._looked - self._rules.lease / 2", "0.0"),
    ),
    (
        an_open_release_is_told_with_each_renewal,
        (membership, "renew_steps", "*releases,", ""),
    ),
    (
        who_stands_twice_leads_from_the_place_in_front,
        (Leadership, "_standing", "mine[0] if mine", "mine[-1] if mine"),
    ),
    (
        who_leads_no_more_writes_nothing,
        (leader, "assign_steps", "Check(tree.candidacy(candidacy)),", ""),
    ),
    (
        a_leader_overwrites_nothing_it_has_not_read_even_at_version_zero,
        (leader, "assign_steps", ".encode(), version)", ".encode(), version or -1)"),
    ),
    (
        a_leader_overwrites_nothing_it_has_not_read,
        (leader, "assign_steps", ".encode(), version)", ".encode())"),
    ),
    (
        a_lease_that_was_renewed_before_the_sweep_stays,
        (leader, "sweep_moves", "tree.lease(member), version", "tree.lease(member)"),
    ),
    (
        a_registration_whose_reply_was_lost_is_found,
        (Membership, "join", "self._id_allocator.standing(self._incarnation) or ", ""),
    ),
    (
        a_slot_that_was_released_is_told_at_its_epoch,
        (Membership, "_show", "still_released(table, self.id, self._released)", "self._released"),
    ),
    (
        a_slot_that_was_released_is_told_at_its_epoch,
        (Membership, "release", "self._show()", "pass"),
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(settings: Settings, rule: Callable[[WritesBench], None]):
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


def mutate(monkeypatch, owner: object, name: str, old: str, new: str) -> None:
    """Replace one piece of a function's source, in the class or module that calls it."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{name} does not contain {old!r} once"
    namespace = dict(vars(sys.modules[function.__module__]))
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
