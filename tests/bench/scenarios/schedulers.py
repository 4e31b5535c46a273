"""One, two and four schedulers of ours on one machine, with one database for all."""

from typing import Any

from tests.bench.bench import Bench
from tests.bench.contenders import OURS
from tests.bench.scenarios.full_cycle import crawled
from tests.bench.turns import in_turn

COUNTS = ("1", "2", "4")
PROJECTS = 100  # so that each has its share


def scenario(bench: Bench) -> dict[str, Any]:
    """Return figures by database and number of schedulers; their processor time is summed."""
    return {database: _measured(bench, database) for database in bench.some_databases}


def _measured(bench: Bench, database: str) -> dict[str, Any]:
    def measure(count: str) -> dict[str, Any]:
        return crawled(bench, database, PROJECTS, OURS.name, schedulers=int(count))

    return in_turn(bench.size.runs, COUNTS, measure)
