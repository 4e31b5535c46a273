"""Requests for projects as they stand in batches and jobs, where anybody may have written them.

The job queue itself does not look inside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pyspider_zk.errors import BadMessage
from pyspider_zk.zookeeper.codec import checked

PROJECTS_LIMIT = 10_000
"""Projects that a job may name; what is put for the cluster names fewer."""


@dataclass(frozen=True)
class Work:
    """What a job is to do.

    Attributes:
        operation: one of ``jobs.operations.Operation``, or what a newer version knows.
        arguments: the operation's.
        projects: the job's; all of one slot.
    """

    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    projects: Sequence[str] = ()

    @classmethod
    def parse(cls, work: object) -> Self:
        """Read the form that stands in a job; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: it is no such work.
        """
        parsed = checked(cls, work)
        if len(parsed.projects) > PROJECTS_LIMIT:
            raise BadMessage(f"{len(parsed.projects)} projects are more than {PROJECTS_LIMIT}")
        return parsed


@dataclass(frozen=True)
class Note:
    """What was asked for in one go.

    Attributes:
        selection: how the projects were chosen.
        user: who asked.
        total: how many projects are meant.
        asked: what tells this request from others.
    """

    operation: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict)
    user: str = ""
    total: int = 0
    asked: str = ""

    @classmethod
    def parse(cls, note: object) -> Self:
        """Read the form that stands in a batch; what is no such note tells nothing."""
        try:
            return checked(cls, note)
        except BadMessage:
            return cls()
