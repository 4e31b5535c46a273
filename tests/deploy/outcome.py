"""What a step came to, and what of it is at fault: rules without I/O."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepOutcome:
    """What a step's line of JSON says.

    Attributes:
        step: its name.
        planned: whether it may cause no duplicate.
        expected: pages of the trees that the site serves.
        missing: those that have no result.
        duplicates: requests that were not the first for their page.
        crawled_before: pages that were crawled when the action began.
        seconds: of the whole step.
        figures: the action's own.
    """

    step: str
    planned: bool
    expected: int
    crawled: int
    missing: int
    duplicates: int
    crawled_before: int
    seconds: float
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        """Return it as one line."""
        said = {name: value for name, value in vars(self).items() if name != "figures"}
        return json.dumps({**said, **self.figures}, separators=(",", ":"))

    def faults(self) -> Iterator[str]:
        """Yield a sentence for each promise that was broken."""
        if self.missing:
            yield f"{self.step}: {self.missing} pages of {self.expected} are missing"
        if self.planned and self.duplicates:
            yield f"{self.step}: {self.duplicates} pages were fetched again in a planned step"
        if not 0 < self.crawled_before < self.expected:
            yield f"{self.step}: it did not happen during the crawl"
