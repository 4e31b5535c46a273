"""A run finds out when one of the rules that it watches is taken away."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.mutations import MUTATIONS
from tests.chaos.services import REPOSITORY
from tests.support.needed import NO_NAMESPACES
from tests.support.network import NOT_PERMITTED

pytestmark = pytest.mark.chaos

CUTS = ("drop_both", "stop")
MOVES = ("drain", "join")

FOUND = {
    "fence": (CUTS, ("overlaps", "late", "ticks_twice", "duplicates_planned")),
    "seals": (CUTS, ("late_writes",)),
    "wait": (CUTS, ("overlaps",)),
    "handoff": (MOVES, ("handovers",)),
    "state": (MOVES, ("handovers",)),
    "tick_pages": (MOVES, ("lost",)),
    "tasks": (MOVES, ("lost",)),
    "packs": (MOVES, ("rescued",)),
    "single_ticks": (MOVES, ("ticks_twice",)),
    "refusals": (("zk_quota", "zk_throttled"), ("fallen",)),
    "names": (("zk_strays",), ("fallen",)),
    "long_life": (MOVES, ("fallen",)),
}
"""By the rule: which faults need it, and what must be found without it, one of them at least."""

STILL = "30"
"""Seconds of a lease where none need end: nor does one where a machine stands still."""

SECONDS = {"fence": 100}
"""By the rule, if it takes more of them than the others.

Without the fence a round that writes ends at the seals, before it sends. Only one that has nothing
to write overlaps: of seven runs of 25 seconds one had none.
"""


def test_every_rule_is_taken_away_once() -> None:
    assert set(FOUND) == set(MUTATIONS)


@pytest.mark.parametrize("rule", FOUND)
def test_a_run_without_a_rule_fails(rule: str, tmp_path: Path) -> None:
    faults, found = FOUND[rule]
    seconds = str(SECONDS.get(rule, 25))
    command = [sys.executable, "-m", "tests.chaos", "--seconds", seconds, "--output", str(tmp_path)]
    command += ["--without", rule, "--only", *faults]
    command += ["--leases", STILL] if faults == MOVES else []
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if run.returncode == NOT_PERMITTED:  # nothing else ends with it, so this hides no failure
        pytest.skip(f"{NO_NAMESPACES}: {run.stderr}")

    assert run.returncode == 1, run.stdout + run.stderr
    counts = json.loads(run.stdout.splitlines()[-1])
    assert any(counts[name] for name in found), counts
