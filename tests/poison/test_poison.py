"""Bad input into a running cluster: the same processes live, the crawl ends, all of it is shown."""

import os
from pathlib import Path

import pytest

from tests.poison.catalogue import everything, groups, order, sample
from tests.poison.run import run
from tests.support.needed import skip_without_needed

SEED = os.environ.get("POISON_SEED", "1")
GROUP = 120

pytestmark = [
    pytest.mark.poison,
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def test_a_cluster_outlives_bad_input_on_every_surface(tmp_path: Path) -> None:
    """The order comes from ``POISON_SEED``; ``python -m tests.poison --bisect`` names culprits."""
    chance = order(SEED)
    chosen = sample(everything(), chance)
    chance.shuffle(chosen)
    grouped = groups([one for one in chosen if one.stage == "crawl"], GROUP)
    with skip_without_needed():
        verdict = run(tmp_path, grouped, [one for one in chosen if one.stage == "visit"])

    assert verdict.good, "\n".join([f"seed {SEED}", *verdict.lines()])
    assert verdict.put == len(chosen)
