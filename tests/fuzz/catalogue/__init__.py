"""All bad input, and a sample of it that covers every surface."""

import random
from collections import defaultdict
from collections.abc import Iterable

from tests.fuzz.catalogue import calls, keys, messages, rows, znodes
from tests.fuzz.catalogue.entry import Poison

SURFACES = (znodes, keys, messages, rows, calls)
PER_SPOT = 2  # of those that cover each other a sample takes so many


def everything() -> list[Poison]:
    """Return all entries; no two have one name."""
    found = [entry for surface in SURFACES for entry in surface.entries()]
    names = [str(entry) for entry in found]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"two entries have one name: {sorted(twice)}"
    return found


def sample(entries: Iterable[Poison], chance: random.Random) -> list[Poison]:
    """Return all that can be put in at once, and a few of those that cover each other."""
    spots: defaultdict[str, list[Poison]] = defaultdict(list)
    for entry in entries:
        spots[entry.spot].append(entry)
    chosen = spots.pop("", [])
    for group in spots.values():
        chosen += chance.sample(group, min(PER_SPOT, len(group)))
    return chosen


def planned(
    entries: list[Poison], seed: object, size: int, *, short: bool
) -> tuple[list[list[Poison]], list[Poison]]:
    """Return what is put in, in groups of so many, and what only a takeover reads.

    Args:
        seed: of the order, and of the sample.
        short: whether it is a sample.
    """
    chance = order(seed)
    chosen = sample(entries, chance) if short else entries
    chance.shuffle(chosen)
    crawl = [one for one in chosen if one.stage == "crawl"]
    return groups(crawl, size), [one for one in chosen if one.stage == "visit"]


def order(seed: object) -> random.Random:
    """Return where an order comes from, the same for one seed."""
    return random.Random(str(seed))  # noqa: S311 - an order is no secret


def groups(entries: Iterable[Poison], size: int) -> list[list[Poison]]:
    """Return the entries in their order, so many in each group, of each spot one at most."""
    made: list[list[Poison]] = []
    for entry in entries:
        for group in made:
            taken = entry.spot and entry.spot in {other.spot for other in group}
            if len(group) < size and not taken:
                group.append(entry)
                break
        else:
            made.append([entry])
    return made
