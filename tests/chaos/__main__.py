"""`python -m tests.chaos`: run a seed, check what a run left behind, or run outages."""

import argparse
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tests.chaos import outages, report
from tests.chaos.faults import Kind
from tests.chaos.mutations import MUTATIONS
from tests.chaos.run import RunPlan, run
from tests.support.network import if_permitted


def main() -> int:
    """Return 0 if all promises held, 1 if one did not; the other codes are in the README."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended all the same
    if sys.argv[1:2] == ["outages"]:
        return outages.main(sys.argv[2:])
    options = _options()
    if options.check:
        return report.check(options.check)
    return if_permitted(lambda: 0 if options.probe else _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.without:
        os.environ["CHAOS_WITHOUT"] = options.without  # schedulers inherit it
    kinds = tuple(options.only or Kind)
    plan = RunPlan(options.seconds, options.seed, options.output, options.keep, kinds)
    more = {"calm": options.calm, "leases": options.leases, "database": options.database}
    return run(replace(plan, **more))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=1, help="which schedule of faults")
    parser.add_argument("--output", type=Path, default=Path("test-output/chaos"))
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run that passed")
    parser.add_argument("--only", nargs="+", type=Kind, metavar="KIND", help="only these faults")
    parser.add_argument("--calm", type=float, default=0.0, help="seconds between two faults")
    parser.add_argument("--leases", type=_numbers, default=(), metavar="2,4,6", help="per seat")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--without", choices=MUTATIONS, help="take a rule away: must be found out")
    parser.add_argument("--probe", action="store_true", help="only tell whether a run is permitted")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="only check a stored history")
    return parser.parse_args()


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
