"""Pages with 20 links of which 18 were told of before, with logs as a user has them and without."""

from typing import Any

from tests.bench.bench import Bench
from tests.bench.contenders import OURS, STOCK
from tests.bench.scenarios.full_cycle import crawled, scrapy
from tests.bench.size import MAIN
from tests.bench.turns import in_turn

LINKS = (20, 18)
QUIET = {"logging on": False, "logging off": True}


def scenario(bench: Bench) -> dict[str, Any]:
    """Return figures by database, logging and contender; a cycle is a page. Then Scrapy's."""
    found: dict[str, Any] = {
        database: {logging: _measured(bench, database, quiet) for logging, quiet in QUIET.items()}
        for database in bench.some_databases
    }
    return found | {"scrapy": scrapy(bench, LINKS)}


def _measured(bench: Bench, database: str, quiet: bool) -> dict[str, Any]:
    def measure(name: str) -> dict[str, Any]:
        return crawled(bench, database, MAIN, name, links=LINKS, quiet=quiet)

    return in_turn(bench.size.runs, (STOCK.name, OURS.name), measure)
