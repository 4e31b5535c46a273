"""Outcome of the demo: a table for people, a line of JSON for programs."""

import json
from dataclasses import asdict, dataclass

from rich.table import Table


@dataclass(frozen=True)
class DemoOutcome:
    """What the demo's last line says.

    ``expected``, ``missing`` and ``duplicate_fetches`` are null for a site that is not ours:
    there is no folder to walk and no server whose requests could be counted.

    Attributes:
        expected: pages that the independent walk found.
        crawled: pages that the crawl found.
        missing: expected pages that were not crawled.
        schedulers: how many ran at the same time.
        killed: how many were killed; 0 if nobody had the busiest project just then.
        moved_slots: slots whose owner changed from before the kill to the end.
        takeover_s: seconds from the kill until the killed one owned nothing.
        duplicate_fetches: requests that were not the first for their page.
        seconds: from the start of the first project to the last change.
    """

    expected: int | None
    crawled: int
    missing: int | None
    schedulers: int
    killed: int
    moved_slots: int
    takeover_s: float | None
    duplicate_fetches: int | None
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether pages were crawled and none is missing."""
        return self.crawled > 0 and not self.missing

    def as_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def as_table(self) -> Table:
        """Return it as a table."""
        table = Table(title="Demo", show_header=False)
        for name, value in asdict(self).items():
            table.add_row(name.replace("_", " "), "unknown" if value is None else str(value))
        return table
