"""``python -m tests.deploy``: compose a cluster, and do to it what happens to clusters.

Prints a line of JSON for each step. Ends with 0 if all promises held, 1 if one did not. Where no
engine runs and none can be started it says so, and ends with 0; with ``CI`` set, with 77.
"""

import argparse
import os
import signal
import sys

from pyspider_zk.errors import MissingService
from tests.deploy.engine import NoEngine
from tests.deploy.run import NAMES, results, say, scene

NOT_PERMITTED = 77  # EX_NOPERM of sysexits.h


def main() -> int:
    """Return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended all the same
    options = _options()
    try:
        return 1 if _run(options) else 0
    except (NoEngine, MissingService) as reason:
        say(f"skipped: {reason}")
        return NOT_PERMITTED if os.environ.get("CI") else 0


def _run(options: argparse.Namespace) -> list[str]:
    faults: list[str] = []
    with scene(options.engine, options.base) as made:
        say(made.as_json())
        for line, found in results(made, options.only):
            say(line)
            faults += found
    for fault in faults:
        say(f"FAILED {fault}")
    return faults


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy", description=__doc__)
    parser.add_argument("--engine", metavar="URL", help="an engine that runs, unix://...")
    parser.add_argument("--base", metavar="IMAGE", help="instead of a base made by debootstrap")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="only these steps")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
