"""A run finds out when one of the rules that it watches is taken away."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.services import REPOSITORY

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

NOT_PERMITTED = 2


@pytest.mark.parametrize(
    ("rule", "faults", "found"),
    [
        ("gate", ["drop_both", "stop"], "overlaps"),
        ("wait", ["drop_both", "stop"], "overlaps"),
        ("handoff", ["drain", "join"], "duplicates_planned"),
    ],
)
def test_a_run_without_a_rule_fails(
    rule: str, faults: list[str], found: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.chaos", "--seconds", "25", "--output", str(tmp_path)]
    command += ["--without", rule, "--only", *faults]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if run.returncode == NOT_PERMITTED:
        pytest.skip(run.stderr)

    assert run.returncode == 1, run.stdout + run.stderr
    assert json.loads(run.stdout.splitlines()[-1])[found] > 0
