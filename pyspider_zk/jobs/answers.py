"""Answers about projects, plans and batches: as members, API and client return them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

ENDED = ("done", "failed", "cancelled")
"""The final states of a batch."""

BATCH_STATES = ("pending", "running", *ENDED)


class _Plain:
    """A dataclass made of the plain values that a scheduler answers with."""

    @classmethod
    def parse(cls, answer: Mapping[str, Any]) -> Self:
        """Read an answer; unknown keys of a newer version are ignored."""
        known = {item.name for item in fields(cls)}  # type: ignore[arg-type]
        return cls(**{key: value for key, value in answer.items() if key in known})

    def as_dict(self) -> dict[str, Any]:
        """Return the plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class BatchStatus(_Plain):
    """A batch and its progress.

    Attributes:
        arguments: the operation's.
        user: who requested it.
        created: seconds since the epoch.
        state: pending, running, done, failed or cancelled; failed if any project did.
        total: projects, like ``done``, ``failed`` and ``remaining``.
        errors: the first projects that failed, with the reasons.
        jobs: how many are pending, running and done.
    """

    id: str
    operation: str
    state: str
    total: int
    done: int
    failed: int
    remaining: int
    created: float
    user: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the batch has ended."""
        return self.state in ENDED


@dataclass(frozen=True)
class Plan(_Plain):
    """Plan: what an operation would do.

    Attributes:
        count: how many projects.
        names: the first of them.
        jobs: how many jobs it would become.
        faults: reasons why it would be refused, or fail.
        digest: stands for all the names.
    """

    operation: str
    count: int
    jobs: int
    names: list[str]
    faults: list[str]
    digest: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Project(_Plain):
    """A project without its script.

    Attributes:
        rate: tasks per second.
        burst: tasks at once.
        updatetime: seconds since the epoch.
        slot: the slot that it belongs to.
        owner: number of the member that schedules it; None: nobody at present.
    """

    name: str
    group: str | None
    status: str
    rate: float | None
    burst: float | None
    updatetime: float | None
    slot: int
    owner: int | None
