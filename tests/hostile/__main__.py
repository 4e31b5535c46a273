"""``python -m tests.hostile``: all kinds of hostile pages and of strangers' load on a cluster."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.besieged import besieged
from tests.hostile.kinds import KINDS
from tests.hostile.load import LOADS
from tests.hostile.run import say, under_pages, under_strangers

PAGES = 500


def main() -> int:
    """Run; return 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--only", nargs="+", help="kinds whose names begin with one of these")
    parser.add_argument("--pages", type=int, default=PAGES, help="of the healthy site")
    parser.add_argument("--at-once", type=int, default=1, help="kinds of load at a time")
    parser.add_argument("--folder", type=Path, help="where data and logs are left")
    asked = parser.parse_args()
    begins = tuple(asked.only or [""])
    kinds = [kind for kind in KINDS if kind.name.startswith(begins)]
    loads = [load for load in LOADS if load.name.startswith(begins)]
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="hostile-"))
    folder.mkdir(exist_ok=True)
    faults = 0
    with besieged(folder) as cluster:
        for fault in under_pages(cluster, kinds, asked.pages) if kinds else ():
            say(f"FAILED {fault}")
            faults += 1
        for fault in under_strangers(cluster, loads, asked.at_once):
            say(f"FAILED {fault}")
            faults += 1
    say(f"{faults} faults; {folder}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
