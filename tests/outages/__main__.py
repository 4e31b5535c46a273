"""``python -m tests.outages``: services away for a time, alone and in pairs."""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from tests.outages.run import PATIENCE, QUICK_TIMES, run, say
from tests.outages.ways import WAYS, WAYS_OF_A_SERVER, Ways, listing, parse
from tests.support.database_servers import PostgresServer


def main() -> int:
    """Run; return 0 if nothing was wrong."""
    asked = _arguments()
    ways = WAYS_OF_A_SERVER if asked.postgresql else WAYS
    outages = [parse(each, ways) for each in asked.what] or _alone_and_in_pairs(ways)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="outages-"))
    times = QUICK_TIMES if asked.quick_times else None
    server = PostgresServer if asked.postgresql else None
    verdict = run(folder / "cluster", outages, asked.seconds, times, asked.rate, server)
    faults = verdict.faults(asked.within)
    say("\n".join(faults) or "good")
    say(str(folder))
    return 1 if faults else 0


def _alone_and_in_pairs(ways: Ways) -> list[dict[str, str]]:
    alone = [{what: how} for what, found in ways.items() for how in found]
    pairs = [
        {what: next(iter(ways[what])) for what in pair} for pair in itertools.combinations(ways, 2)
    ]
    return alone + pairs


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.outages", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each is away")
    parser.add_argument(
        "--what",
        action="append",
        default=[],
        help=f"away together, such as taskdb,redis=killed; may be repeated; {listing()}"
        f"; with --postgresql {listing(WAYS_OF_A_SERVER)}",
    )
    parser.add_argument("--postgresql", action="store_true", help="it has the databases")
    parser.add_argument(
        "--within", type=float, default=PATIENCE, help="seconds in which it must go on afterwards"
    )
    parser.add_argument("--quick-times", action="store_true", help="a lease of 2 s instead of 4")
    parser.add_argument("--rate", type=float, default=20.0, help="pages per second and project")
    parser.add_argument("--folder", type=Path, help="where data and logs are left")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
