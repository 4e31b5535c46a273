"""What commands show: failures without passwords, and times that anybody may have written."""

import math

import pytest

from pyspider_zk.cli.output import UNREADABLE, Failure, age, moment
from pyspider_zk.errors import ClusterError


def test_what_it_quotes_is_not_obeyed_by_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Failure(ClusterError("member \x1b[2J\nis away"), debug=True).show()
    told = capsys.readouterr().err
    assert told.endswith("Error: member \\x1b[2J\nis away\n")
    assert "\x1b" not in told


@pytest.mark.parametrize("seconds", [-1e300, 1e300, -math.inf, math.inf, math.nan])
def test_what_is_no_time_is_shown_as_such(seconds: float) -> None:
    assert moment(seconds) == age(seconds, 1000.0) == UNREADABLE


@pytest.mark.parametrize("seconds", [-1e12, 1e12])
def test_a_time_that_no_calendar_has_is_shown_as_such(seconds: float) -> None:
    assert moment(seconds) == UNREADABLE


def test_a_time_is_shown_by_the_local_clock() -> None:
    assert moment(0.0).startswith(("1970-01-01 ", "1969-12-31 "))
    assert age(1000.0, 1000.0 + 3661) == "1:01:01"
    assert age(2000.0, 1000.0) == "0:00:00"
