"""Findings: what a check found, what it means and what to do."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    Attributes:
        text: what was found, and what it means unless it is well.
        remedy: what to do; empty if it is well.
    """

    grade: Grade
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class DoctorCheck:
    """A check: the part of the installation that it is about, and how it is examined.

    Attributes:
        run: asks and judges; what it raises is a finding, too.
    """

    part: str
    run: Callable[[], Iterable[Finding]]


def ok(text: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Grade.OK, text)


def warning(text: str, remedy: str) -> Finding:
    """Return a finding about what will do for now."""
    return Finding(Grade.WARNING, text, remedy)


def failed(text: str, remedy: str) -> Finding:
    """Return a finding about what must be mended."""
    return Finding(Grade.FAILED, text, remedy)


def judged(holds: bool, well: str, otherwise: Finding) -> Finding:
    """Return that all is well if something holds, or else what it means that it does not."""
    return ok(well) if holds else otherwise


def milliseconds(seconds: float) -> str:
    """Return a short time as text."""
    return f"{seconds * 1000:.3g} ms"


def version_number(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, by which servers are told apart."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def several(names: Iterable[str], most: int = 3) -> str:
    """Return some names as text, and how many more there are."""
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more} more" if more > 0 else "")
