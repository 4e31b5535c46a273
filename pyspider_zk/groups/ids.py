"""Ids: numbers from zero without gaps among the running, and incarnations."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple, Self

from pyspider_zk.errors import BadMessage


def choose_number(name: str, holders: Mapping[int, str], running: Collection[int]) -> int:
    """Return the number for a new member.

    One with a name gets the number that its name had, unless that is in use. All others get the
    lowest number that is not in use, one that no name has a claim to if that leaves no gap.

    Args:
        name: of the new member; empty if it has none.
        holders: the name that each number was last given to, empty for none.
        running: numbers of those that run now.
    """
    if name:
        for number, holder in sorted(holders.items()):
            if holder == name and number not in running:
                return number
    free = (number for number in range(len(running) + 1) if number not in running)
    return min(free, key=lambda number: (bool(holders.get(number)), number))


_MEMBER_ID = re.compile(r"(0|[1-9][0-9]{0,8})-([^\s/\x00-\x1f\x7f]{1,200})")


class MemberId(NamedTuple):
    """A member's number and incarnation.

    The incarnation is new in every ZooKeeper session, so a process that comes back under its old
    number owns nothing: its previous incarnation may still be running, paused.
    """

    number: int
    incarnation: str

    def __str__(self) -> str:
        return f"{self.number}-{self.incarnation}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the form that ``str`` writes.

        Raises:
            BadMessage: it is no such form.
        """
        found = _MEMBER_ID.fullmatch(text)
        if found is None:
            raise BadMessage(f"{text[:100]!r} is no member's number and incarnation")
        return cls(int(found[1]), found[2])
