"""``python -m tests.poison``: everything, or a sample, or each entry alone."""

import argparse
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.poison.catalogue import everything, groups, order, sample
from tests.poison.entry import Poison
from tests.poison.run import culprits, run, say
from tests.support.database_servers import PostgresServer


def main() -> int:
    """Run; return 0 if nothing was wrong, 1 if something was, 2 if there is nothing to put in."""
    asked = _arguments()
    chance = order(asked.seed)
    entries = _entries(asked)
    if not entries:
        but = f" and none of {asked.without}" if asked.without else ""
        say(f"no entry's name holds {asked.only!r}{but}: give another word")
        return 2
    logging.getLogger("pyspider_zk").setLevel(logging.CRITICAL)  # it says what all others say
    chosen = sample(entries, chance) if asked.short else entries
    chance.shuffle(chosen)
    grouped = groups([one for one in chosen if one.stage == "crawl"], asked.group)
    visits = [one for one in chosen if one.stage == "visit"]
    say(f"seed {asked.seed}: {len(chosen)} of {len(entries)} entries in {len(grouped)} groups")
    began = time.monotonic()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="poison-"))
    server = PostgresServer if asked.postgresql else None
    verdict = run(folder, grouped, visits, server)
    say("\n".join(verdict.lines()))
    if asked.bisect:
        for group, what in verdict.fatal:
            for entry in culprits(folder, group, server):
                say(f"CULPRIT: {entry}: {what}")
    say(f"{'good' if verdict.good else 'BAD'} after {time.monotonic() - began:.0f} s; {folder}")
    return 0 if verdict.good else 1


def _entries(asked: argparse.Namespace) -> list[Poison]:
    return [
        entry
        for entry in everything()
        if asked.only in str(entry) and not any(text in str(entry) for text in asked.without)
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.poison", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--short", action="store_true", help="a sample that covers every surface")
    parser.add_argument("--only", default="", help="entries whose name holds this")
    parser.add_argument("--without", action="append", default=[], help="and not this")
    parser.add_argument("--group", type=int, default=40, help="how many are put in at once")
    parser.add_argument("--bisect", action="store_true", help="name those that are fatal alone")
    parser.add_argument("--postgresql", action="store_true", help="it has the databases")
    parser.add_argument("--folder", type=Path, help="where data and logs are left")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
