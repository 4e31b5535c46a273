"""Group in ZooKeeper: who holds its name, who takes part, and how everything is deleted."""

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote

from pyspider_zk.errors import (
    BadMessage,
    ConfigError,
    Mismatch,
    NameTaken,
    SessionLost,
    Unavailable,
)
from pyspider_zk.groups.id_allocator import IdAllocator
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.codec import Record
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.ephemeral import Tenure, begin
from pyspider_zk.zookeeper.errors import NodeExistsError, NoNodeError, NotEmptyError
from pyspider_zk.zookeeper.steps import Create, Delete, Step, Write
from pyspider_zk.zookeeper.waiting import Waiter

HOLDER = "holder"
PARTS = ("members", "ids", "joined", "barriers", "locks")


@dataclass(frozen=True)
class Holder(Record):
    """Holder of a group's name.

    Attributes:
        run: the value that all participants of one run share; another run is refused.
        home: the znode, below the group's, that contains everything of this run.
    """

    run: str
    home: str


@dataclass(frozen=True)
class Participant(Record):
    """A process that joined a group.

    Attributes:
        number: from zero; the same when a name returns.
        since: seconds since the epoch.
    """

    number: int
    name: str
    host: str
    pid: int
    since: float

    def __str__(self) -> str:
        who = f"number {self.number} ({self.name})" if self.name else f"number {self.number}"
        return f"{who} on {self.host}, pid {self.pid}"


@dataclass(frozen=True)
class Home:
    """The znodes of one run of a group, below its home."""

    path: str

    @property
    def members(self) -> str:
        """Parent of the ephemeral nodes; while it exists the run holds the name."""
        return f"{self.path}/members"

    def member(self, member: object) -> str:
        """One participant's ephemeral node."""
        return f"{self.members}/{member}"

    @property
    def ids(self) -> str:
        """Parent of the numbers."""
        return f"{self.path}/ids"

    @property
    def joined(self) -> str:
        """Parent of all that ever joined."""
        return f"{self.path}/joined"

    def joiner(self, name: str, number: int = 0) -> str:
        """Who joined last under this name, or under this number without a name."""
        return f"{self.joined}/" + (f"name-{quote(name, safe='')}" if name else f"number-{number}")

    def barrier(self, name: str) -> str:
        """One barrier."""
        return f"{self.path}/barriers/{check_name(name, 'barrier')}"

    def lock(self, name: str) -> str:
        """One lock."""
        return f"{self.path}/locks/{check_name(name, 'lock')}"


def check_name(name: str, what: str) -> str:
    """Return the name if it is valid for a znode.

    Raises:
        ConfigError: naming the fault.
    """
    if not name or not name.isprintable() or "/" in name or name in (".", ".."):
        raise ConfigError(
            [f"{what}: {name!r} cannot be its name; use printable characters and no slash"]
        )
    return name


LOOKS = 2  # at the same holder of a name that has no participants
SHOWN = 5  # participants that a message names


class Group:
    """One participant's place in a group.

    Below the group's znode are ``holder``, which names the run that holds the name, and that run's
    home. Two rules keep them consistent whoever dies when:

    - A run holds the name while its home has the node ``members``. That node can be deleted only
      while nobody is registered below it, and ``holder`` goes in the same transaction. So if
      several leave at once exactly one closes the group, and nobody can join a closed one.
    - A home is never opened again, so one without ``members`` can be deleted by anybody.

    Threads: one thread calls ``join`` and ``leave``; the rest may be called from any.
    """

    def __init__(self, connection: Connection, root: str, name: str, run: str) -> None:
        self._connection = connection
        self._groups = f"{root}/groups"
        self._name = name
        self._path = f"{self._groups}/{check_name(name, 'group')}"
        self._holder = f"{self._path}/{HOLDER}"
        self._run = run
        self._waiting = Waiter()
        self._tenure: Tenure | None = None
        self._home: Home | None = None
        self._me: MemberId | None = None
        self._leaving: MemberId | None = None

    @property
    def me(self) -> MemberId:
        """My number and incarnation.

        Raises:
            SessionLost: not joined, or the session ended since.
        """
        if self._me is None or self._tenure is None or self._tenure.lost:
            raise SessionLost(f"not in group {self._name!r}: join it, or join it again")
        return self._me

    @property
    def home(self) -> Home:
        """The znodes of the run that was joined."""
        if self._home is None:
            raise SessionLost(f"not in group {self._name!r}: join it")
        return self._home

    @property
    def id_allocator(self) -> IdAllocator:
        """The numbers of the run that was joined."""
        return IdAllocator(self._connection, self.home.ids, self.home.members)

    def join(self, participant: Participant, patience: float) -> MemberId:
        """Take a number and register, unless already joined. Blocks.

        Args:
            participant: its public description; the number is filled in.
            patience: how many seconds to wait for ZooKeeper, and for the sessions of the dead to
                end.

        Raises:
            NameTaken: another run holds the group's name, or another participant this one's.
            Unavailable: ZooKeeper did not answer in time.
        """
        refusals: list[NameTaken] = []
        if self._waiting.until(lambda: self._try_to_join(participant, refusals), patience):
            return self.me
        missing = Unavailable(f"not joined within {patience:g} s: {self._waiting.fault}")
        raise refusals[-1] if refusals else missing

    def leave(self) -> None:
        """Leave; the last participant deletes everything. Safe to repeat.

        Raises:
            Unavailable: ZooKeeper does not answer; the end of the session completes it.
        """
        self._leaving, self._me = self._me or self._leaving, None
        if self._leaving is None or self._home is None:
            return
        self._connection.require()
        self._connection.delete(self._home.member(self._leaving))
        self._close(self._home)
        self._leaving = None

    def running(self, watch: Watch | None = None) -> list[Participant]:
        """Return those that take part now, by number."""
        return self._participants(self.home.members, watch)

    def joined(self, watch: Watch | None = None) -> list[Participant]:
        """Return all that ever took part in this run, by number; without a name, once each."""
        return self._participants(self.home.joined, watch)

    def _participants(self, path: str, watch: Watch | None) -> list[Participant]:
        paths = [f"{path}/{name}" for name in self._connection.children(path, watch)]
        found = zip(paths, self._connection.find_all(paths), strict=True)
        decoded = self._connection.unreadable.decoded
        read = (decoded(place, record, Participant.decode) for place, record in found)
        return sorted(filter(None, read), key=lambda one: (one.number, one.since))

    def _try_to_join(self, participant: Participant, refusals: list[NameTaken]) -> bool:
        try:
            self._connection.require()
            if not self._is_registered():
                self._join(participant, self._begin())
        except NameTaken as refusal:
            refusals.append(refusal)
            return False
        except SessionLost:
            self._waiting.wake()
            return False
        return True

    def _is_registered(self) -> bool:
        if self._me is None or self._tenure is None or self._tenure.lost:
            return False
        return self._connection.find(self.home.member(self._me)) is not None

    def _begin(self) -> Tenure:
        """Begin another incarnation, unless an attempt in this session may have registered one.

        The nodes of an earlier incarnation are deleted: its session may still exist after all.
        """
        former, tenure = self._me, self._tenure
        if former is not None:
            self._connection.delete(self.home.member(former))
        if former is not None or tenure is None or tenure.lost:
            tenure = self._tenure = begin(self._connection)
        self._me = None
        return tenure

    def _join(self, participant: Participant, tenure: Tenure) -> None:
        former = None
        while True:
            home = self._claim()
            if home == former:
                raise self._damaged()
            former = self._home = home
            try:
                member = self.id_allocator.standing(tenure.id) or self._register(
                    participant, tenure
                )
            except NoNodeError:
                continue  # it was closed in between
            tenure.settle(home.member(member))
            self._me = member
            return

    def _claim(self) -> Home:
        """Return the home of our run: it holds the name, or the name is free for it.

        Another run's is closed. It may be that its last participant has just left and closes it;
        but one that stands there after that has no ``members``, or what is no participant in it.
        """
        seen: list[Home] = []
        while True:
            found = self._connection.find(self._holder)
            if found is None:
                self._found()
                continue
            holder = self._read_holder(found[0])
            home = Home(f"{self._path}/{holder.home}")
            if holder.run == self._run:
                return home
            if seen.count(home) == LOOKS:
                raise self._damaged()
            seen.append(home)
            if not self._close(home):
                self._refuse_another_run(holder, home)
            self._connection.sync(self._path)  # a server that lags behind shows it once more

    def _damaged(self) -> Mismatch:
        return Mismatch(f"{self._path} was damaged from outside: delete it")

    def _read_holder(self, data: bytes) -> Holder:
        try:
            holder = Holder.decode(data)
            check_name(holder.home, "home")
        except (BadMessage, ConfigError) as fault:
            raise Mismatch(f"{self._holder} cannot be read: {fault}; delete it") from fault
        return holder

    def _found(self) -> None:
        """Create a home and claim the name for it, all or nothing."""
        holder = Holder(self._run, uuid.uuid4().hex[:12])
        home = f"{self._path}/{holder.home}"
        steps = [Create(f"{home}/{part}", b"") for part in PARTS]
        try:
            self._connection.multi(Create(self._holder, holder.encode()), Create(home, b""), *steps)
        except NodeExistsError:
            return
        except NoNodeError:
            self._connection.ensure([self._path])

    def _register(self, participant: Participant, tenure: Tenure) -> MemberId:
        """Take a number and register under a name that is not in use.

        That is looked at before the number is chosen: otherwise a previous incarnation that dies in
        between would neither be waited for nor leave its number. Writing who joined, at the
        version that was read then, keeps two of one name apart.
        """
        id_allocator, name = self.id_allocator, participant.name
        holders = id_allocator.holders()
        while True:
            last = self._last(self.home.joiner(name)) if name else None
            member = id_allocator.try_to_take(
                name, tenure.id, holders, partial(self._nodes, participant, last)
            )
            if member is not None:
                return member

    def _last(self, path: str) -> int | None:
        """Return the version of the record of who joined last under a name, if there is one."""
        found = self._connection.find(path)
        if found is None:
            return None
        last = self._connection.unreadable.decoded(path, found, Participant.decode)
        if last is not None:
            self._refuse_a_second(last)
        return found[1]

    def _nodes(self, participant: Participant, last: int | None, member: MemberId) -> list[Step]:
        record = replace(participant, number=member.number).encode()
        path = self.home.joiner(participant.name, member.number)
        if not participant.name:
            found = self._connection.find(path)
            last = found[1] if found else None
        return [
            Create(self.home.member(member), record, ephemeral=True),
            Create(path, record) if last is None else Write(path, record, last),
        ]

    def _refuse_a_second(self, last: Participant) -> None:
        """Refuse a name that is in use; only the last one that took it may run under it."""
        if self.id_allocator.is_held(last.number, last.name, self._waiting.wake):
            raise NameTaken(
                f"group {self._name!r} has a participant {last.name!r} already, number"
                f" {last.number}: give each its own name, or none"
            )

    def _refuse_another_run(self, holder: Holder, home: Home) -> None:
        """Raise an error that names the holders, unless the last of them is gone meanwhile."""
        running = self._participants(home.members, self._waiting.wake)
        if running:
            others = "; ".join(map(str, running[:SHOWN])) + (
                "; ..." if len(running) > SHOWN else ""
            )
            raise NameTaken(
                f"group {self._name!r} is held by run {holder.run!r} with {len(running)} running"
                f" ({others}): wait for its end, or take another name"
            )

    def _close(self, home: Home) -> bool:
        """Close a run that has no participants; return false if it has some."""
        try:
            self._connection.multi(Delete(home.members), Delete(self._holder))
        except NotEmptyError:
            return False
        except NoNodeError:
            pass  # somebody else was faster
        self._sweep()
        return True

    def _sweep(self) -> None:
        """Delete all homes that are closed, and the parents if nothing is left below them."""
        for name in self._connection.children(self._path):
            path = f"{self._path}/{name}"
            if name != HOLDER and Home(path).members not in self._below(path):
                self._delete_tree(path)
        for path in (self._path, self._groups):
            with suppress(NotEmptyError):
                self._connection.delete(path)

    def _below(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in self._connection.children(path)]

    def _delete_tree(self, path: str) -> None:
        for child in self._below(path):
            self._delete_tree(child)
        with suppress(NotEmptyError):
            self._connection.delete(path)
