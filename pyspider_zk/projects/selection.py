"""Selection of projects."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

import msgspec

from pyspider_zk.asked import parsed
from pyspider_zk.errors import BadRequest
from pyspider_zk.projects.rows import STATUSES, is_text, split_group

Condition = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
"""A text that is not empty where it is given, for that would be no condition at all.

Each ``*`` of a pattern takes memory.
"""


@dataclass(frozen=True)
class Selection:
    """Projects by their names or by what they are; all that is given must hold.

    Attributes:
        names: exactly these.
        pattern: a shell pattern that the whole name matches, such as ``news_*``.
        group: one of the project's groups, as pyspider splits them.
        status: one of pyspider's.
        owner: number of the member that schedules them.
        all: really all; without it a selection in which nothing is given is refused.
    """

    names: tuple[str, ...] = ()
    pattern: Condition = ""
    group: Condition = ""
    status: Condition = ""
    owner: int | None = None
    all: bool = False

    @classmethod
    def parse(cls, asked: object) -> Self:
        """Read the plain form, a mapping of the attributes, or raise ``BadRequest``."""
        return parsed(cls, "a selection", asked)

    def check(self) -> None:
        """Refuse what is likely a mistake.

        Raises:
            BadRequest: nothing is given, there is no such status, or the batch could not record
                what is given.
        """
        for name in ("pattern", "group"):
            if not is_text(given := getattr(self, name)):
                raise BadRequest(f"selection: {name} must be text, not {given!r:.80}")
        if self.status and self.status not in STATUSES:
            raise BadRequest(f"there is no status {self.status!r}; known are {', '.join(STATUSES)}")
        if not (self.all or self.given):
            raise BadRequest(
                "no projects are named: give names, pattern, group, status or owner, or all"
            )

    @property
    def given(self) -> dict[str, Any]:
        """What is given, by attribute, as plain values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["names"] = list(self.names)
        nothing = vars(Selection()) | {"names": []}
        return {name: value for name, value in values.items() if value != nothing[name]}

    def unknown(self, known: Mapping[str, Any]) -> list[str]:
        """Return the names that no project has."""
        return [name for name in self.names if name not in known]

    def chosen(self, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return the names of those that are meant, sorted.

        Args:
            rows: all projects by name, with ``group``, ``status`` and ``owner``.
        """
        among = [name for name in dict.fromkeys(self.names) if name in rows] or (
            [] if self.names else rows
        )
        return sorted(name for name in among if self._means(name, rows[name]))

    def _means(self, name: str, row: Mapping[str, Any]) -> bool:
        return (
            (not self.pattern or fnmatchcase(name, self.pattern))
            and (not self.group or self.group.lower() in split_group(row["group"]))
            and (not self.status or row["status"] == self.status)
            and (self.owner is None or row["owner"] == self.owner)
        )
