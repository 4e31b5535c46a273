"""Coordinator: the thread that keeps a scheduler a member, follows the assignment, and may lead."""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspider_zk.cluster.cluster_settings import ClusterSettings, Maintenance, taken_over
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.leader import Leadership
from pyspider_zk.cluster.membership import Membership
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.reader import ProtocolWatch, SettingsWatch, Table
from pyspider_zk.cluster.records import Cluster, Load, Member, Meta
from pyspider_zk.cluster.rules import NOTHING, Rules, View, rules_of
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, SessionLost, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.loop import Loop
from pyspider_zk.metrics.families import RENEWALS
from pyspider_zk.outage import Outage
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import OUTDATED
from pyspider_zk.zookeeper.waiting import Waiter, boottime

logger = logging.getLogger(__name__)

RETRY_PAUSE = 0.05  # seconds, after a conflicting change
CONFLICTS = 20  # in a row, after which they are no coincidence
AFTER = 0.001  # seconds after the last moment of a lease
FOUNDING = 60.0  # seconds that a ZooKeeper may be away which answered at the start
JITTER = 0.1  # of the renewal: else members that started at once would renew at once forever


class VitalSigns:
    """Vital signs of one member. Threads: the coordinator's writes, any may read.

    Attributes:
        renewals: how long renewals of the lease took that succeeded.
        failures: how many failed.
        epoch: of the assignment that the member knows.
    """

    def __init__(self) -> None:
        self.renewals = RENEWALS.histogram()
        self.failures = 0
        self.epoch = 0
        self._epoch_since = time.monotonic()

    @property
    def epoch_age(self) -> float:
        """Seconds since the assignment changed."""
        return time.monotonic() - self._epoch_since

    def watch(self, renew: Callable[[], bool]) -> None:
        """Renew the lease, and note how that went.

        Args:
            renew: returns whether the lease was renewed; what it raises is raised.
        """
        began, is_renewed = time.monotonic(), False
        try:
            is_renewed = renew()
        finally:
            if is_renewed:
                self.renewals.observe(time.monotonic() - began)
            else:
                self.failures += 1

    def learned(self, epoch: int | None) -> None:
        """Note the epoch of the assignment, if one was read."""
        if epoch is not None and epoch != self.epoch:
            self.epoch, self._epoch_since = epoch, time.monotonic()


class Coordinator:
    """The thread that keeps one member in the cluster.

    Threads: ``start`` and ``stop`` belong to the thread that owns the scheduler; ``view``,
    ``open``, ``beat``, ``released`` and ``drain`` may be called from any thread and never block.
    Everything that talks to ZooKeeper happens on the coordinator's own thread.

    Args:
        record: the member's description of itself.
        projects: returns the active projects of the slots that have any; called while leading.
        load: returns what the member carries; called with each renewal. Both are called on the
            coordinator's thread, so they must be quick and must not raise.
        clock: the clock of leases, in seconds.
        chance: a number from 0 to 1; spreads the renewals of many members.

    Attributes:
        connection: its connection, for the member's other data in ZooKeeper; its calls block,
            unlike those of the coordinator.
        vital_signs: how renewals go, and what the member knows.
        alone: whether, while draining, nobody is there who could take the slots, or may.
    """

    def __init__(
        self,
        settings: Settings,
        record: Member,
        projects: Callable[[], Mapping[int, int]],
        load: Callable[[], Load],
        clock: Callable[[], float] = boottime,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._own = self._settings = settings
        self._record = record
        self._projects = projects
        self._load = load
        self._clock = clock
        self._chance = chance
        tree = self._tree = Tree(settings.root)
        self.connection = Connection(settings, resumes=True)  # leases bound its ownership
        self._directory = Directory(settings, self.connection)
        self._table = Table(tree.assignment, settings.slots, self.connection.unreadable)
        self.vital_signs = VitalSigns()
        self._loop = Loop("coordinator", self._turn_or_fail)
        self._shared = SettingsWatch(self.connection, tree, self._loop.wake)
        self._protocol = ProtocolWatch(self.connection, tree, self._loop.wake)
        rules = rules_of(settings, self._shared.current)
        self._membership = self._new_membership(rules)
        self._leadership = Leadership(
            *(self.connection, tree, rules, clock, self._loop.wake),
            *(self._table, self._renew_if_due),
        )
        self._stale = threading.Event()
        self._draining = threading.Event()
        self._given_up: queue.SimpleQueue[Mapping[int, int]] = queue.SimpleQueue()
        self._former: MemberId | None = None
        self._next_renewal = float("-inf")
        self._beat = clock()
        self._conflicts = 0
        self._outage = Outage(
            logger, "%s; the fences stay open until the lease ends", "ZooKeeper answers again"
        )
        self._fault = Outage(
            *(logger, "leading fails, this member stays and tries again: %r"),
            *("leading works again",),
            is_fault=True,
        )
        self.alone = False
        self._failure: Exception | None = None

    def start(self) -> None:
        """Connect, found or join the cluster.

        Blocks as a connection does until ZooKeeper answers. If it answered once and stops again,
        blocks up to a minute.

        Raises:
            Unavailable: no ZooKeeper at the addresses.
            Mismatch: the cluster has other values.
        """
        self.connection.start()
        try:
            waiter = Waiter(self._clock)
            if not waiter.until(self._is_founded, FOUNDING):
                where = f"{self._settings.hosts}{self._settings.root}"
                raise Unavailable(
                    f"no cluster can be founded or joined at {where}: {waiter.fault!r}"
                )
        except BaseException:
            self.connection.stop()
            raise
        self.connection.on_change(self._loop.wake)
        self.beat()
        self._loop.start()

    def _is_founded(self) -> bool:
        try:
            ensure_cluster(self.connection, self._tree, Meta(self._settings.slots))
        except SessionLost as error:  # the next one begins by itself
            raise Unavailable(str(error)) from error
        return True

    def stop(self, returns_within: float = 0.0) -> None:
        """Leave the cluster. Call it once no effect can happen any more.

        Blocks up to the session timeout and some seconds if ZooKeeper is silent.

        Args:
            returns_within: seconds that the slots wait for this member's number to be back.
        """
        self._loop.stop()
        try:
            self._membership.leave(returns_within)
            self._leadership.withdraw()
        except (Unavailable, SessionLost, *OUTDATED) as error:
            logger.warning("left without telling: %r; the lease will end by itself", error)
        finally:
            self.connection.stop()

    @property
    def view(self) -> View:
        """What this member owns, as far as it knows."""
        return self._membership.view

    @property
    def member(self) -> MemberId | None:
        """The number and incarnation, None before joining and while rejoining."""
        return self._membership.id

    @property
    def leading(self) -> bool:
        """Whether this member leads, as far as it knows."""
        return self._leadership.leading and self._membership.id is not None

    @property
    def protocol(self) -> int:
        """The protocol to write by: the one in use, as far as this member knows."""
        return self._protocol.current

    @property
    def path(self) -> str | None:
        """The member's ephemeral znode, None before joining and while rejoining."""
        member = self._membership.id
        return None if member is None else self._tree.member(member)

    def open(self, slot: int, epoch: int) -> bool:
        """Return whether an effect on a slot is allowed at this moment: the fence."""
        return self._membership.view.open(slot, epoch, self._clock())

    def beat(self) -> None:
        """Show that the scheduling loop runs; without it the lease is not renewed.

        A member whose loop hangs must not keep its projects from everybody else. How long it may
        stand still is a setting: loading a project takes its time, and it would take as long
        elsewhere.

        Raises:
            ClusterError: the coordinator itself has failed; the member must end.
        """
        self._beat = self._clock()
        if self._failure is not None:
            raise ClusterError("the coordinator failed") from self._failure

    def released(self, slots: Mapping[int, int]) -> None:
        """Report slots that were given up, with the epochs at which they were owned."""
        self._given_up.put(dict(slots))
        self._loop.wake()

    def drain(self) -> None:
        """Request that all slots are moved to other members."""
        self._draining.set()
        self._loop.wake()

    def cluster(self) -> Cluster:
        """Read the whole cluster; blocks, from any thread.

        Raises:
            Unavailable: ZooKeeper does not answer.
        """
        return self._directory.read()

    @property
    def restart_delay(self) -> float:
        """For how many seconds this member's slots may wait for it, if it is restarted."""
        return self._shared.current.restart_delay

    def _on_assignment(self, _event: object) -> None:
        self._stale.set()
        self._loop.wake()

    def _turn_or_fail(self) -> float:
        try:
            return self._turn()
        except Exception as error:
            logger.exception("the coordinator failed; this member ends")
            self._membership.view = NOTHING
            self._failure = error
            self._loop.end()
            return 0.0

    def _turn(self) -> float:
        """Do one step; return how long to sleep, unless something wakes the thread."""
        try:
            self._step()
        except OUTDATED as error:
            return self._decide_anew(error)
        except SessionLost as error:
            self._drop_all(error)
            return RETRY_PAUSE
        except Unavailable as error:
            self._outage.failed(error)
            return self._settings.renewal
        self._conflicts = 0
        self._outage.answered()
        return self._pause(self._clock())

    def _decide_anew(self, error: Exception) -> float:
        """Return when to try again what was decided on an older state, or seems to be."""
        self._conflicts += 1
        if self._conflicts <= CONFLICTS:
            return RETRY_PAUSE
        self._outage.failed(
            Unavailable(f"ZooKeeper refuses one decision after the other: {error!r}")
        )
        return self._settings.renewal

    def _pause(self, now: float) -> float:
        """Return the time until the next renewal, or until a member must be dead if that is sooner.

        Otherwise the projects of a dead member would pause up to a renewal longer.
        """
        death = self._leadership.next_death(now) + AFTER
        return max(0.0, min(self._next_renewal, death) - now)

    def _step(self) -> None:
        """Do what is to be done, the lease first: whatever else fails must not cost it."""
        if self._membership.lost:
            raise SessionLost("the ZooKeeper session ended")
        self.connection.require()
        if self._membership.id is not None:
            self._keep_up()
        self._protocol.refresh()
        if self._shared.refresh():
            self._take_over(self._shared.current)
        member = self._membership.id or self._join()
        if member is None:
            return
        self._keep_up()  # if it has just joined, or goes by another lease now
        self.vital_signs.learned(self._membership.epoch)
        if self._draining.is_set():
            self._drain(member)
        self._pass_on_releases()
        self._lead(member)

    def _keep_up(self) -> None:
        """Follow the assignment and renew the lease, if either is due."""
        if self._stale.is_set():
            self._stale.clear()
            self._membership.read_assignment()
        self._renew_if_due()

    def _drain(self, member: MemberId) -> None:
        """Let the slots move, and find out whether they can."""
        self._membership.drain()
        is_on_hold = self._shared.current.maintenance is Maintenance.HOLD
        if is_on_hold and not self.alone:
            logger.warning(
                "maintenance is on hold: the slots stay, and wait for number %d to be back",
                member.number,
            )
        others = self._directory.members().values()
        self.alone = is_on_hold or all(record.draining for record in others)

    def _lead(self, member: MemberId) -> None:
        """Lead, or stand by; what nobody foresaw there must not cost this member its slots.

        The next leader would meet the same znode, and so on until no member is left.
        """
        try:
            self._leadership.lead(member, self._projects, self._membership.hold)
        except (ClusterError, *OUTDATED):
            raise
        except Exception as error:  # a fault of ours, of whatever class
            self._fault.failed(error)
            self._leadership.start_anew()
        else:
            self._fault.answered()

    def _take_over(self, shared: ClusterSettings) -> None:
        """Go by the cluster-wide settings; other members learn of another lease by a renewal."""
        self._settings = taken_over(self._own, shared)
        rules = self._membership.rules = rules_of(self._settings, shared)
        self._leadership.obey(rules, shared)
        self._next_renewal = float("-inf")
        logger.info(
            "cluster-wide settings: %s; lease %g s, renewal %g s",
            *(shared, self._settings.lease, self._settings.renewal),
        )

    def _join(self) -> MemberId | None:
        """Join, unless our previous incarnation is still registered; then try again soon."""
        ensure_cluster(self.connection, self._tree, Meta(self._settings.slots))
        self._clear_up()
        pause = self._membership.pause(self._record.name)
        if pause is not None:
            self._next_renewal = self._clock() + pause
            return None
        self._next_renewal = float("-inf")
        return self._membership.join(replace(self._record, draining=self._draining.is_set()))

    def _clear_up(self) -> None:
        """Delete what the previous incarnation leaves behind if its session still exists."""
        self._leadership.withdraw()
        if self._former is not None:
            self.connection.delete(self._tree.member(self._former))
            self._former = None

    def _pass_on_releases(self) -> None:
        while not self._given_up.empty():
            self._membership.release(self._given_up.get())
        self._membership.acknowledge()

    def _renew_if_due(self) -> None:
        """Renew if it is time and the scheduling loop runs; the next try is later in any case."""
        now = self._clock()
        if now < self._next_renewal:
            return
        self._next_renewal = now + self._settings.renewal * (1 - JITTER * self._chance())
        if now - self._beat <= self._settings.hang:
            load = self._load()
            self.vital_signs.watch(lambda: self._membership.renew(load))

    def _drop_all(self, error: SessionLost) -> None:
        if self._membership.id is not None:
            logger.warning("%s; member %s owns nothing any more", error, self._membership.id)
            self._former = self._membership.id
        self._membership = self._new_membership(self._membership.rules)
        self._given_up = queue.SimpleQueue()

    def _new_membership(self, rules: Rules) -> Membership:
        return Membership(
            *(self.connection, self._tree, rules, self._clock),
            *(self._on_assignment, self._table),
        )
