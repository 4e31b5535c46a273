"""Barrier in ZooKeeper that is passed round after round, and that names who is missing."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyspider_zk.errors import BadMessage, ClusterError, Mismatch, Missing, SessionLost
from pyspider_zk.groups.group import Home
from pyspider_zk.groups.id_allocator import IdAllocator
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.codec import Record
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError, NodeExistsError, NoNodeError
from pyspider_zk.zookeeper.steps import Check, Create, Step, Write
from pyspider_zk.zookeeper.waiting import Waiter


@dataclass(frozen=True)
class BarrierState(Record):
    """The state that changes only when a round is complete; all who wait watch it.

    Attributes:
        parties: how many a round needs.
        round: counts the complete rounds.
        passed: the last round that each participant passed, of those that ran when it was
            written. After a lost reply a participant finds here whether its arrival counted.
    """

    parties: int
    round: int = 0
    passed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BarrierArrivals(Record):
    """The arrivals for the current round."""

    names: tuple[str, ...] = ()


def arrive(arrivals: BarrierArrivals, me: str, running: Collection[str]) -> BarrierArrivals:
    """Return the arrivals with mine, without those of the dead."""
    alive = {name for name in arrivals.names if name in running}
    return BarrierArrivals(tuple(sorted(alive | {me})))


def withdraw(arrivals: BarrierArrivals, me: str) -> BarrierArrivals:
    """Return the arrivals without mine."""
    return BarrierArrivals(tuple(name for name in arrivals.names if name != me))


def next_round(
    state: BarrierState, arrivals: BarrierArrivals, running: Collection[str]
) -> BarrierState | None:
    """Return the state after this round, None if somebody is missing."""
    if len(arrivals.names) < state.parties:
        return None
    still = {name: number for name, number in state.passed.items() if name in running}
    return BarrierState(
        state.parties, state.round + 1, still | dict.fromkeys(arrivals.names, state.round)
    )


def here(arrivals: BarrierArrivals, running: Collection[MemberId]) -> set[MemberId]:
    """Return those that have arrived and are alive."""
    return {member for member in running if str(member) in arrivals.names}


def missing(
    parties: int,
    present: Collection[MemberId],
    holders: Mapping[int, str],
    running: Collection[MemberId],
) -> tuple[str, ...]:
    """Return a phrase for each one that is not present, the dead included.

    Args:
        parties: how many there should be.
        holders: the name that each number was last given to, empty for none.
        running: those that run now.
    """
    absent = sorted(set(holders) - _numbers(present))
    phrases = [_phrase(number, holders[number], number in _numbers(running)) for number in absent]
    never = parties - len(present) - len(absent)
    return (*phrases, *([f"{never} that never joined"] if never > 0 else []))


def _numbers(members: Collection[MemberId]) -> set[int]:
    return {member.number for member in members}


def _phrase(number: int, name: str, is_running: bool) -> str:
    who = f"number {number} ({name})" if name else f"number {number}"
    return f"{who}, {'which runs' if is_running else 'which is gone'}"


class Barrier:
    """A point that ``parties`` participants pass together, as often as they like.

    A round is complete when that many have arrived and are all registered at that moment: one
    transaction checks their ephemeral nodes and writes the state. One that died before does not
    count, and may arrive again when it has joined again. Rounds have numbers, and everybody waits
    for its own to be complete, so the fast cannot run through two while the slow pass one.

    Threads: an object belongs to the thread that uses it.
    """

    def __init__(
        self,
        connection: Connection,
        home: Home,
        id_allocator: IdAllocator,
        me: MemberId,
        name: str,
        parties: int,
    ) -> None:
        self._connection = connection
        self._home = home
        self._id_allocator = id_allocator
        self._me = me
        self._name = name
        self._parties = parties
        self._path = home.barrier(name)
        self._arrived = f"{self._path}/arrived"
        self._waiting = Waiter()
        self._first: int | None = None
        self._passed = -1

    def wait(self, timeout: float) -> int:
        """Arrive and wait until all have; return the number of the round, from zero. Blocks.

        If it raises, the arrival is withdrawn, so that others do not pass without this one.

        Args:
            timeout: seconds. There is no endless waiting: somebody may have died.

        Raises:
            Missing: some did not arrive in time; it names them.
            SessionLost: the session ended; join again, then arrive again.
            Unavailable: ZooKeeper did not answer in time; the arrival may still count.
            Mismatch: others use the barrier with another number of parties.
        """
        self._first = None
        try:
            if not self._waiting.until(self._is_passed, timeout):
                self._give_up(timeout)
        except (Missing, SessionLost):
            raise
        except BaseException:
            with suppress(ClusterError):
                self._withdraw()
            raise
        return self._passed

    def missing(self) -> tuple[str, ...]:
        """Return a phrase for each one that has not arrived for the present round."""
        running = self._id_allocator.running()
        arrived = here(self._arrivals()[0], running)
        return missing(self._parties, arrived, self._id_allocator.holders(), running)

    def _is_passed(self) -> bool:
        """Arrive, unless done; return whether the round is complete."""
        self._connection.require()
        while True:
            state, arrivals = self._state(), self._arrivals()
            if self._has_passed(state[0]):
                return True
            steps = self._steps(*state, *arrivals)
            if not steps:
                return False
            self._try(*steps)

    def _steps(
        self,
        state: BarrierState,
        state_version: int,
        arrivals: BarrierArrivals,
        version: int | None,
    ) -> list[Step]:
        """Return the steps of my arrival, and of the state if it is the last; none if I wait."""
        running = self._running()
        now = arrive(arrivals, str(self._me), running)
        after = next_round(state, now, running)
        if after is not None:
            return [
                *(Check(self._home.member(name)) for name in now.names),
                Write(self._path, after.encode(), state_version),
                self._written(BarrierArrivals(), version),
            ]
        if now == arrivals:
            return []
        return [
            Check(self._home.member(self._me)),
            Check(self._path, state_version),
            self._written(now, version),
        ]

    def _written(self, arrivals: BarrierArrivals, version: int | None) -> Step:
        """Return the step that writes the arrivals, though somebody deleted their znode."""
        data = arrivals.encode()
        return (
            Create(self._arrived, data) if version is None else Write(self._arrived, data, version)
        )

    def _has_passed(self, state: BarrierState) -> bool:
        """Return whether a round has been completed since this waiting began."""
        if self._first is None:
            self._first = state.round
        self._passed = state.passed.get(str(self._me), -1)
        return self._passed >= self._first

    def _give_up(self, timeout: float) -> None:
        absent = self.missing()
        if not self._withdraw():
            raise Missing(f"barrier {self._name!r} was not complete within {timeout:g} s", absent)

    def _withdraw(self) -> bool:
        """Withdraw my arrival, unless the round has just been completed; return whether it was."""
        while True:
            state, state_version = self._state()
            arrivals, version = self._arrivals()
            if self._has_passed(state):
                return True
            others = withdraw(arrivals, str(self._me))
            if others == arrivals:
                return False
            self._try(Check(self._path, state_version), self._written(others, version))

    def _try(self, *steps: Step) -> None:
        """Do the steps, or nothing if somebody arrived, left or died since they were computed."""
        with suppress(BadVersionError, NoNodeError, NodeExistsError):
            self._connection.multi(*steps)

    def _state(self) -> tuple[BarrierState, int]:
        while True:
            found = self._connection.find(self._path, self._waiting.wake)
            if found is not None:
                break
            self._make()
        state = self._read_state(found[0])
        if state.parties != self._parties:
            raise Mismatch(
                f"barrier {self._name!r} was made for {state.parties} parties,"
                f" not for {self._parties}: give all the same number"
            )
        return state, found[1]

    def _read_state(self, data: bytes) -> BarrierState:
        try:
            return BarrierState.decode(data)
        except BadMessage as fault:
            raise Mismatch(f"{self._path} cannot be read: {fault}; delete it") from fault

    def _make(self) -> None:
        try:
            self._connection.multi(
                Check(self._home.member(self._me)),
                Create(self._path, BarrierState(self._parties).encode()),
                Create(self._arrived, BarrierArrivals().encode()),
            )
        except NodeExistsError:
            return
        except NoNodeError as error:
            raise self._lost() from error

    def _arrivals(self) -> tuple[BarrierArrivals, int | None]:
        """Return who has arrived, and the version; nobody and none where the znode is missing.

        Unreadable arrivals count as nobody: all that wait check again from time to time, and arrive
        again.
        """
        found = self._connection.find(self._arrived)
        if found is None:
            return BarrierArrivals(), None
        decoded = self._connection.unreadable.decoded(self._arrived, found, BarrierArrivals.decode)
        return decoded or BarrierArrivals(), found[1]

    def _running(self) -> set[str]:
        running = set(map(str, self._id_allocator.running()))
        if str(self._me) not in running:
            raise self._lost()
        return running

    def _lost(self) -> SessionLost:
        return SessionLost(f"{self._me} is not registered any more: join again")
