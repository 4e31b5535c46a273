"""Id allocator in ZooKeeper: small stable numbers, and who is registered under them."""

import re
from collections.abc import Callable, Mapping, Sequence

from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId, choose_number
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.errors import BadVersionError, NodeExistsError
from pyspider_zk.zookeeper.steps import Create, Step, Write

NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
TRIES = 100  # to take a number while others take theirs

Steps = Callable[[MemberId], Sequence[Step]]
"""The steps that register a number's new holder, its ephemeral node first of all."""


class IdAllocator:
    """Allocator of numbers: who holds which.

    Below ``ids`` is one znode per number with the name that it was last given to, below
    ``members`` one ephemeral znode ``<number>-<incarnation>`` per running holder.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, ids: str, members: str) -> None:
        self._connection = connection
        self._ids = ids
        self._members = members

    def running(self, watch: Watch | None = None) -> list[MemberId]:
        """Return those that run."""
        names = self._connection.children(self._members, watch)
        parsed = self._connection.unreadable.parsed(self._members, names, MemberId.parse)
        return sorted(parsed.values())

    def holders(self) -> dict[int, str]:
        """Return the name that each number was last given to, empty for none."""
        names = self._connection.children(self._ids)
        numbers = sorted(self._connection.unreadable.parsed(self._ids, names, _number).values())
        found = self._connection.find_all([self._id(number) for number in numbers])
        return {
            number: self._read_name(number, data[0])
            for number, data in zip(numbers, found, strict=True)
            if data
        }

    def standing(self, incarnation: str) -> MemberId | None:
        """Return the registration of an earlier attempt whose reply was lost.

        The server that we reach now may lag behind the one that carried it out.
        """
        self._connection.sync(self._members)
        return next((one for one in self.running() if one.incarnation == incarnation), None)

    def take(self, name: str, incarnation: str, steps: Steps) -> MemberId:
        """Take a number and register, all or nothing.

        Raises:
            NodeExistsError: others were faster each time.
        """
        holders = self.holders()
        for _ in range(TRIES):
            member = self.try_to_take(name, incarnation, holders, steps)
            if member is not None:
                return member
        raise NodeExistsError

    def try_to_take(
        self, name: str, incarnation: str, holders: Mapping[int, str], steps: Steps
    ) -> MemberId | None:
        """Take a number and register, all or nothing; None if something changed in between.

        Args:
            holders: may be outdated; they decide what is preferred, not what is free.
        """
        member = MemberId(choose_number(name, holders, self._taken()), incarnation)
        try:
            self._connection.multi(*self._claim(member.number, name), *steps(member))
        except (BadVersionError, NodeExistsError):
            return None
        return member

    def bearer(self, name: str, watch: Watch) -> MemberId | None:
        """Return the running holder of that name's number, None if there is none."""
        running = {member.number: member for member in self.running(watch)}
        named = (running.get(number) for number, each in self.holders().items() if each == name)
        return next(filter(None, named), None)

    def is_held(self, number: int, name: str, watch: Watch) -> bool:
        """Return whether a holder of that name runs under that number."""
        holder = self._connection.find(self._id(number))
        running = {member.number for member in self.running(watch)}
        return holder is not None and holder[0] == name.encode() and number in running

    def _read_name(self, number: int, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as fault:
            self._connection.unreadable.note(self._id(number), fault)
            return ""

    def _claim(self, number: int, name: str) -> list[Step]:
        """Return the step that claims a number.

        The number's node is written in the transaction that registers, at the version that was
        read, so two that join at once cannot both get it.
        """
        path, data = self._id(number), name.encode()
        holder = self._connection.find(path)
        if number in self._taken():
            raise NodeExistsError
        return [Create(path, data) if holder is None else Write(path, data, holder[1])]

    def _taken(self) -> set[int]:
        return {member.number for member in self.running()}

    def _id(self, number: int) -> str:
        return f"{self._ids}/{number}"


def _number(name: str) -> int:
    if not NUMBER.fullmatch(name):
        raise BadMessage(f"{name[:100]!r} is no number")
    return int(name)
