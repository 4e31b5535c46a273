"""Numbers: from zero, without gaps among the running, the same one on return."""

from collections.abc import Collection, Mapping


def choose_number(name: str, holders: Mapping[int, str], running: Collection[int]) -> int:
    """Return the number for one that joins.

    One with a name gets the number that its name had, unless somebody runs under it. All others
    get the lowest number that nobody runs under, one that no name is waiting for if that leaves
    no gap.

    Args:
        name: the name of the one that joins; empty if it claims no number.
        holders: the name that each number was last given to, empty for none.
        running: numbers of those that run now.
    """
    if name:
        for number, holder in sorted(holders.items()):
            if holder == name and number not in running:
                return number
    free = (number for number in range(len(running) + 1) if number not in running)
    return min(free, key=lambda number: (bool(holders.get(number)), number))
