"""Plugin of pytest by which no test skips in CI: what is missing there is a failure."""

import os
from collections.abc import Generator, Mapping
from typing import TypeVar

import pytest

from tests.support.needed import NO_NAMESPACES

WITHOUT_NAMESPACES = "WITHOUT_NAMESPACES"
"""The variable that says beforehand that CI's machine does not permit them."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def refusal(reason: str, environ: Mapping[str, str]) -> str | None:
    """Return what a test that skips for a reason fails with; None if it may skip."""
    if not environ.get("CI"):
        return None
    if environ.get(WITHOUT_NAMESPACES) and reason.startswith(NO_NAMESPACES):
        return None
    return f"This test would skip, which none may with CI set: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test that skips in CI fail."""
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a module that skips in CI fail."""
    return _judged((yield))


def _judged(report: Report) -> Report:
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        told = refusal(reason.removeprefix("Skipped: "), os.environ)
        if told is not None:
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {told}"
    return report
