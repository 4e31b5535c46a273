"""Fuzzing in short, as CI runs it; and a cluster with deliberate faults, which must be found."""

from pathlib import Path

import pytest

from tests.fuzz.run import fuzz
from tests.fuzz.target import ALL
from tests.support.needed import skip_without_needed
from tests.support.seed import SEED

SECONDS = 10.0
SPOILT_INPUTS = 150  # of each surface: a good many reach the deliberate faults
PRELOAD = Path(__file__).parent / "preload"

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]


def test_a_cluster_outlives_mutated_input_on_five_surfaces(tmp_path: Path) -> None:
    with skip_without_needed():
        verdict = fuzz(tmp_path, ALL, SECONDS, str(SEED))

    assert verdict.good, "\n".join([f"SEED={SEED}", *verdict.lines()])
    assert all(verdict.answers[name].total() > 0 for name in ALL)


def test_the_judge_finds_deliberate_faults(tmp_path: Path) -> None:
    with skip_without_needed():
        verdict = fuzz(tmp_path, ("xmlrpc", "http"), 0, str(SEED), PRELOAD, SPOILT_INPUTS)

    told = "\n".join(verdict.findings.values())
    wanted = {
        "fault 1: <class 'RuntimeError'>:deliberate",
        "status 500",
        "traceback in scheduler-up-",
        "traceback in webui",
        "webui keeps",
    }
    assert {part for part in wanted if part not in told} == set(), f"SEED={SEED}"
    assert list((tmp_path / "findings").glob("*.json"))
