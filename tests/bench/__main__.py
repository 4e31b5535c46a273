"""``python -m tests.bench``: measure for ten minutes, or for hours, and draw the page of it."""

import argparse
import json
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.bench import FULL, QUICK, Bench, opened
from tests.bench.figures import MEANING, ratios
from tests.bench.machine import load, machine
from tests.bench.scenarios import SCENARIOS
from tests.support.processes import ROOT

DRAW = ROOT / "docs/internals/draw_performance.py"


def main() -> int:
    """Measure, say what comes of it, and write it down; return how many scenarios failed."""
    asked = _arguments()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # background shells have it ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scenarios = {name: SCENARIOS[name] for name in asked.only or SCENARIOS}
    size = FULL if asked.full else QUICK
    if asked.endurance is not None:
        size = replace(size, endurance=asked.endurance)
    with opened(size, asked.database) as bench:
        _say(*(f"left out: {name}: {why}" for name, why in bench.left_out.items()))
        report: dict[str, Any] = {
            "machine": machine(),
            "left_out": bench.left_out,
            "ratio_means": MEANING,
        }
        report["figures"] = _former(asked.output) if asked.add else {}
        of = {name: report["machine"][name] for name in ("commit", "time")} | {
            "quick": not asked.full
        }
        for name, scenario in scenarios.items():
            report["figures"][name] = {**_run(name, scenario, bench), "run": of}
            report["ratio"] = ratios(report["figures"])
            _write(asked.output, report)
    _say(*(f"{name:<40}{value}" for name, value in report["ratio"].items() if value is not None))
    page = asked.output.with_name("performance.md")
    runpy.run_path(str(DRAW))["draw"](report, page)
    _say(f"-> {asked.output}, {page}")
    return sum("failed" in figures for figures in report["figures"].values())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="2.5 hours instead of ten minutes")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="may be repeated")
    parser.add_argument("--database", action="append", help="of those that are there; default: all")
    parser.add_argument("--endurance", type=float, help="seconds at full rate")
    parser.add_argument("--add", action="store_true", help="keep other scenarios of the output")
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench.json")
    return parser.parse_args()


def _former(output: Path) -> dict[str, Any]:
    """Return the figures of a file, each with the run that it is of."""
    figures: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))["figures"]
    return figures


def _run(name: str, scenario: Callable[[Bench], Mapping[str, Any]], bench: Bench) -> dict[str, Any]:
    """Return a scenario's figures, or why there are none: the others go on."""
    begin, before = time.monotonic(), load()
    try:
        figures = dict(scenario(bench))
    except Exception as error:
        traceback.print_exc()
        figures = {"failed": f"{type(error).__name__}: {error}"}
    taken = time.monotonic() - begin
    _say(f"== {name} ({taken:.0f} s)", json.dumps(figures, indent=1))
    return {**figures, "taken_s": taken, "machine_load": {"before": before, "after": load()}}


def _write(output: Path, report: Mapping[str, Any]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
