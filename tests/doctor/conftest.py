"""Installations to examine, and what the doctor finds in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.doctor.checks import Installation, checks, spellings
from pyspider_zk.doctor.examination import examine, without
from pyspider_zk.doctor.findings import Finding, Grade

NO_HURRY = {"renewal": 10.0, "lease": 30.0, "hang": 30.0, "session": 40.0, "budget": 10.0}
"""With which no server is slow, however busy the machine."""

Examine = Callable[..., list[Finding]]


@pytest.fixture
def examined(tmp_path: Path) -> Examine:
    """Give the function that examines one part of an installation."""

    def examine_part(part: str, settings: Settings | None = None, **given: Any) -> list[Finding]:
        nothing = {"message_queue": None, "databases": {}, "config": {}, "config_file": None}
        rest = {**nothing, "data_path": tmp_path / "data", "lock": None, **given}
        it = Installation(settings or Settings(**NO_HURRY), **rest)
        chosen = [check for check in checks(it) if check.part == part]
        return [finding for _, finding in examine(chosen, without(spellings(it)))]

    return examine_part


def graded(findings: list[Finding], grade: Grade) -> str:
    """Return all findings of a grade as one text."""
    return "\n".join(each.text for each in findings if each.grade is grade)
