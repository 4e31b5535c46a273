"""Makes the faults of a schedule happen, undoes them, and writes down what was really done."""

import heapq
import itertools
import os
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from tests.chaos.cluster import ChaosCluster, signal_of
from tests.chaos.faults import DROPS, LEAST, Kind, PlannedFault
from tests.chaos.foreign_client import keep_asking
from tests.chaos.recorder import Recorder, boottime
from tests.chaos.services import ENSEMBLE, SeatedScheduler, ZooKeeperMember
from tests.support.network import Direction

REBALANCE_PATIENCE = 8.0
DRAIN_PATIENCE = 45.0
_LOOK = 0.02  # seconds between two looks at a rebalance
_AGAIN = 0.5  # seconds until another try to undo something
_DIRECTIONS = {
    Kind.DROP: Direction.BOTH,
    Kind.DROP_IN: Direction.IN,
    Kind.DROP_OUT: Direction.OUT,
    Kind.DROP_BUSY: Direction.BOTH,
}
_Any = TypeVar("_Any")


class Timeline:
    """Actions in the order of their times, all on one thread."""

    def __init__(self) -> None:
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a boot time."""
        heapq.heappush(self._actions, (when, next(self._numbers), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(boottime() + seconds, action)

    def run(self, wait: Callable[[float], Any]) -> None:
        """Do all that there is, also what is added meanwhile; ``wait`` sleeps in between."""
        while self._actions:
            when, _, action = heapq.heappop(self._actions)
            if when > boottime():
                wait(when - boottime())
            action()


class Inflictor:
    """Hits the cluster.

    Attributes:
        done: how many faults of each kind happened.
    """

    def __init__(self, cluster: ChaosCluster, timeline: Timeline, log: Recorder) -> None:
        self._cluster = cluster
        self._timeline = timeline
        self._log = log
        self._numbers = itertools.count()
        self._hit: set[str] = set()  # labels of schedulers and names of servers
        self._shifted: set[str] = set()
        self.done: dict[Kind, int] = {}

    def inflict(self, fault: PlannedFault) -> None:
        """Let a fault happen, unless nothing is there that it could hit."""
        self.look_after()
        begun = [part for part in fault.parts or (fault,) if self._begin(part)]
        if fault.parts and len(begun) == len(fault.parts):
            self._count(fault.kind)
        else:
            for part in begun:
                self._count(part.kind)

    def look_after(self) -> None:
        """Start anew whoever ended by himself; that is a fault of the product."""
        for fallen in self._cluster.fallen():
            self._log.note("fallen", target=fallen.label, code=fallen.child.code)
            self._seat_another()

    def _count(self, kind: Kind) -> None:
        self.done[kind] = self.done.get(kind, 0) + 1

    def _begin(self, fault: PlannedFault) -> bool:
        actions: dict[Kind, Callable[[PlannedFault], bool]] = {
            Kind.KILL: self._kill,
            Kind.STOP: self._stop,
            Kind.DRAIN: self._drain,
            Kind.JOIN: self._join,
            Kind.ZK_KILL: self._kill_zookeeper,
            Kind.ZK_LEADER_KILL: self._kill_zookeeper,
            Kind.ZK_THROTTLED: self._throttle_zookeeper,
            Kind.ZK_QUOTA: self._meddle,
            Kind.ZK_STRAYS: self._meddle,
            Kind.REDIS_RESTART: self._restart_redis,
            Kind.CLOCK_JUMP: self._jump,
            Kind.WORKER_KILL: self._kill_worker,
            Kind.LEADER_KILL: self._kill_in_rebalance,
            **dict.fromkeys(DROPS, self._drop),
        }
        return actions[fault.kind](fault)

    # -- schedulers -----------------------------------------------------------------------------

    def _kill(self, fault: PlannedFault) -> bool:
        victim = self._victim(fault)
        if victim is not None:
            self._kill_scheduler(victim, fault)
        return victim is not None

    def _kill_scheduler(self, victim: SeatedScheduler, fault: PlannedFault) -> None:
        self._cluster.leaving.add(victim.label)
        healed = self._note(fault, victim.label)
        victim.child.kill()

        def restart() -> None:
            if not self._cluster.seated[victim.seat].child.running:
                self._cluster.seat(victim.seat)
            healed()

        self._timeline.after(fault.lasts, restart)

    def _stop(self, fault: PlannedFault) -> bool:
        victim = self._victim(fault)
        if victim is None:
            return False
        healed = self._note(fault, victim.label)
        signal_of(victim, signal.SIGSTOP)
        still = _standing_still(victim.child.pid)

        def resume() -> None:
            healed(still=still)
            signal_of(victim, signal.SIGCONT)

        return self._while_hit(fault, resume, victim.label)

    def _drop(self, fault: PlannedFault) -> bool:
        victim = self._victim(fault)
        if victim is None:
            return False
        healed = self._note(fault, victim.label)
        self._cluster.network.drop(victim.seat, ENSEMBLE, _DIRECTIONS[fault.kind])
        quiet = threading.Event()
        if fault.kind is Kind.DROP_BUSY:
            self._keep_busy(victim, quiet)

        def heal() -> None:
            quiet.set()
            self._cluster.network.heal(victim.seat)
            healed()

        return self._while_hit(fault, heal, victim.label)

    def _keep_busy(self, victim: SeatedScheduler, quiet: threading.Event) -> None:
        """Hide from its ZooKeeper client that the link of a scheduler is dead."""
        address = self._cluster.watcher.address_of(victim.child.pid)
        self._log.note("traffic", target=victim.label, address=address)
        if address is not None:
            keep_asking(address, quiet)

    def _drain(self, fault: PlannedFault) -> bool:
        victim = self._victim(fault)
        if victim is None:
            return False
        self._send_away(victim, fault)
        if len(self._cluster.staying()) < LEAST:
            self._seat_another()
        return True

    def _send_away(self, victim: SeatedScheduler, fault: PlannedFault) -> None:
        self._cluster.leaving.add(victim.label)
        healed = self._note(fault, victim.label)
        signal_of(victim, signal.SIGTERM)
        deadline = boottime() + DRAIN_PATIENCE

        def look() -> None:
            if not victim.child.running:
                healed(code=victim.child.code)
            elif boottime() > deadline:
                self._log.note("overdue", target=victim.label)
                victim.child.kill()
            else:
                self._timeline.after(0.1, look)

        look()

    def _join(self, fault: PlannedFault) -> bool:
        joined = self._seat_another()
        if joined is not None:
            self._note(fault, joined.label)()
        return joined is not None

    def _jump(self, fault: PlannedFault) -> bool:
        able = [one for one in self._cluster.staying() if one.label not in self._shifted]
        victim = _chosen(able, fault)
        if victim is None:
            return False
        healed = self._note(fault, victim.label, shift=fault.shift)
        victim.set_clock(fault.shift)

        def set_back() -> None:
            victim.set_clock(0)
            healed()
            self._shifted.discard(victim.label)

        self._shifted.add(victim.label)
        self._timeline.after(fault.lasts, set_back)
        return True

    def _kill_in_rebalance(self, fault: PlannedFault) -> bool:
        """Let somebody come or go, and kill the leader while slots are between two owners."""
        leader = self._cluster.leader()
        others = [one for one in self._healthy() if one is not leader and one.begun]
        if len(self._cluster.staying()) > LEAST and others:
            self._send_away(others[int(fault.choice * len(others))], _part(fault, Kind.DRAIN))
        elif self._seat_another() is None:
            return False
        self._await_rebalance(fault, boottime() + REBALANCE_PATIENCE)
        return False  # it counts when it comes to that

    def _await_rebalance(self, fault: PlannedFault, deadline: float) -> None:
        moving = self._cluster.watcher.moving()
        if not moving and boottime() < deadline:
            self._timeline.after(_LOOK, partial(self._await_rebalance, fault, deadline))
            return
        leader = self._cluster.leader()
        self._log.note("rebalance", seen=moving, leader=leader and leader.label)
        if leader is not None and leader.label not in self._hit:
            hit = fault if moving else _part(fault, Kind.KILL)
            self._kill_scheduler(leader, hit)
            self._count(hit.kind)

    # -- services -------------------------------------------------------------------------------

    def _kill_zookeeper(self, fault: PlannedFault) -> bool:
        able = [one for one in self._cluster.ensemble if one.name not in self._hit]
        if fault.kind is Kind.ZK_LEADER_KILL:
            able = [one for one in able if one.leads()]
        victim = _chosen(able, fault)
        if victim is None or not self._is_spared(victim):
            return False
        healed = self._note(fault, victim.name)
        victim.child.kill()

        def restart() -> None:
            victim.child.start()
            healed()

        return self._while_hit(fault, restart, victim.name)

    def _throttle_zookeeper(self, fault: PlannedFault) -> bool:
        """Throttle a server, and let a scheduler reach no other one."""
        able = [one for one in self._cluster.ensemble if one.name not in self._hit]
        server = _chosen(able, fault)
        victim = self._victim(fault)
        if server is None or victim is None or not self._is_spared(server):
            return False
        healed = self._note(fault, server.name, scheduler=victim.label)
        server.restart(throttled=True)
        self._cluster.network.reset(victim.seat, [one for one in ENSEMBLE if one != server.name])

        def heal() -> None:
            self._cluster.network.heal(victim.seat)
            server.restart(throttled=False)
            healed()

        return self._while_hit(fault, heal, server.name, victim.label)

    def _meddle(self, fault: PlannedFault) -> bool:
        """Do something to the znodes, and undo it, which may take several tries."""
        foreign = self._cluster.foreign_client
        do, undo = {
            Kind.ZK_QUOTA: (foreign.set_quota, foreign.lift_quota),
            Kind.ZK_STRAYS: (foreign.put_strays, foreign.remove_strays),
        }[fault.kind]
        healed = self._note(fault, "znodes")
        done = do()

        def heal() -> None:
            healed() if undo() else self._timeline.after(_AGAIN, heal)

        self._timeline.after(fault.lasts if done else 0.0, heal)
        return done

    def _is_spared(self, victim: ZooKeeperMember) -> bool:
        """Return whether all other servers are in sync, so that one of three may go.

        One that is coming back is not: ZooKeeper before 3.8.3 may then lose what it has confirmed
        (ZOOKEEPER-4643, -4646), which no rule of ours can make good.
        """
        others = [one for one in self._cluster.ensemble if one is not victim]
        return all(one.name not in self._hit and one.serves() for one in others)

    def _restart_redis(self, fault: PlannedFault) -> bool:
        redis = self._cluster.redis
        if not redis.running:
            return False
        healed = self._note(fault, "redis", killed=fault.shift > 0)
        redis.kill() if fault.shift > 0 else redis.terminate()

        def restart() -> None:
            if not redis.wait(2):
                redis.kill()
            redis.start()
            healed()

        self._timeline.after(fault.lasts, restart)
        return True

    def _kill_worker(self, fault: PlannedFault) -> bool:
        """Kill a fetcher, processor or result worker."""
        able = [one for one in self._cluster.components if one.name not in self._hit]
        victim = _chosen(able, fault)
        if victim is None:
            return False
        healed = self._note(fault, victim.name)
        victim.kill()

        def restart() -> None:
            victim.start()
            healed()

        return self._while_hit(fault, restart, victim.name)

    def _while_hit(self, fault: PlannedFault, undo: Callable[[], None], *whom: str) -> bool:
        """Leave these alone until a fault is undone, after its time; return that it happened."""

        def end() -> None:
            undo()
            self._hit -= set(whom)

        self._hit |= set(whom)
        self._timeline.after(fault.lasts, end)
        return True

    # -- whom -----------------------------------------------------------------------------------

    def _healthy(self) -> list[SeatedScheduler]:
        return [one for one in self._cluster.staying() if one.label not in self._hit]

    def _victim(self, fault: PlannedFault) -> SeatedScheduler | None:
        """Choose a scheduler, but not the last healthy one that has slots.

        One that is starting is at most killed: SIGTERM would just end its Python, and without
        ZooKeeper for ten seconds it ends by itself, as is documented.
        """
        healthy = self._healthy()
        begun = [one for one in healthy if one.begun]
        able = healthy if fault.kind is Kind.KILL else begun
        return _chosen(able, fault) if len(begun) > 1 else None

    def _seat_another(self) -> SeatedScheduler | None:
        seat = self._cluster.free_seat()
        return None if seat is None else self._cluster.seat(seat)

    def _note(self, fault: PlannedFault, target: str, **fields: Any) -> Callable[..., None]:
        number = next(self._numbers)
        self._log.note("fault", n=number, kind=fault.kind, target=target, **fields)
        return lambda **more: self._log.note("healed", n=number, **more)


def _standing_still(pid: int) -> float:
    """Return a time at which a child stands still that was told to; it may do much until then."""
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    return boottime()


def _chosen(able: Sequence[_Any], fault: PlannedFault) -> _Any | None:
    return able[int(fault.choice * len(able))] if able else None


def _part(fault: PlannedFault, kind: Kind) -> PlannedFault:
    return PlannedFault(kind, fault.at, fault.lasts, fault.choice)
