"""Outcome of the demo: a table for people, a line of JSON for programs."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rich.table import Table


def _means(what: str) -> Any:
    """Make a field that says in words what its value is."""
    return field(metadata={"means": what})


@dataclass(frozen=True)
class DemoOutcome:
    """What the demo's last line says.

    ``expected``, ``missing`` and ``duplicate_fetches`` are null for a site that is not ours:
    there is no folder to walk and no server whose requests could be counted. ``takeover_s`` is, and
    ``killed`` 0, if nobody had the busiest project just then.
    """

    expected: int | None = _means("pages, by a walk over the files without pyspider")
    crawled: int = _means("pages that were crawled")
    missing: int | None = _means("expected pages that were not crawled")
    schedulers: int = _means("that ran at the same time")
    killed: int = _means("of them, with SIGKILL, in the middle of the crawl")
    moved_slots: int = _means("slots (shares of the projects) with a new scheduler")
    takeover_s: float | None = _means("seconds until others had all slots of the killed one")
    duplicate_fetches: int | None = _means("repeated requests, for what was under way at the kill")
    seconds: float = _means("from the start of the crawl to its end")

    @property
    def complete(self) -> bool:
        """Whether pages were crawled and none is missing."""
        return self.crawled > 0 and not self.missing

    def as_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def as_table(self) -> Table:
        """Return it as a table, with what each value means."""
        table = Table.grid(padding=(0, 2))
        for each in fields(self):
            value = getattr(self, each.name)
            told = "unknown" if value is None else str(value)
            table.add_row(each.name, told, each.metadata["means"])
        return table
