"""Bad input into a running cluster: the same processes live, the crawl ends, all of it is shown."""

from pathlib import Path

import pytest

from tests.poison.catalogue import everything, groups, order, sample
from tests.poison.run import run
from tests.support.database_servers import DatabaseServer, PostgresServer
from tests.support.needed import skip_without_needed
from tests.support.seed import SEED

GROUP = 120

pytestmark = [
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(None, marks=pytest.mark.poison, id="sqlite"),
        pytest.param(
            PostgresServer, marks=(pytest.mark.soak, pytest.mark.postgresql), id="PostgreSQL"
        ),
    ],
)
def test_a_cluster_outlives_bad_input_on_every_surface(
    tmp_path: Path, server: type[DatabaseServer] | None
) -> None:
    """The order comes from ``SEED``; ``python -m tests.poison --bisect`` names culprits."""
    chance = order(SEED)
    chosen = sample(everything(), chance)
    chance.shuffle(chosen)
    grouped = groups([one for one in chosen if one.stage == "crawl"], GROUP)
    visits = [one for one in chosen if one.stage == "visit"]
    with skip_without_needed():
        verdict = run(tmp_path, grouped, visits, server)

    assert verdict.good, "\n".join([f"seed {SEED}", *verdict.lines()])
    assert verdict.put == len(chosen)
