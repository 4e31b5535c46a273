"""An outage is logged when it begins and when it is over, once each."""

import logging

import pytest

from pyspider_zk.outage import Outage


def test_it_is_told_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage(logging.getLogger("test"), "it is away: %s", "it is back")
    outage.answered()
    for _ in range(3):
        outage.failed(OSError("refused"))
    assert outage.lasts
    for _ in range(3):
        outage.answered()
    assert not outage.lasts
    outage.failed(OSError("again"))
    assert [record.getMessage() for record in caplog.records] == [
        "it is away: refused",
        "it is back",
        "it is away: again",
    ]


def test_a_fault_that_nobody_foresaw_is_told_once_as_an_error_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fault = Outage(logging.getLogger("test"), "it fails: %r", "it works", is_fault=True)
    for _ in range(3):
        fault.failed(ValueError("x"))
    (told,) = caplog.records
    assert told.levelno == logging.ERROR
    assert told.exc_info
    assert isinstance(told.exc_info[1], ValueError)
