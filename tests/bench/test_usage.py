"""What Linux tells of a process."""

import os

import pytest

from tests.bench.usage import parse_memory, parse_ticks, usage_of


def test_a_name_with_blanks_and_parentheses_moves_no_field() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_ticks(f"7 (a) b (c) S {fields}") == 14 + 15


def test_memory_is_in_bytes() -> None:
    status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"
    assert parse_memory(status, "VmHWM") == 2048 * 1024
    assert parse_memory(status, "VmRSS") == 1024


def test_a_process_that_ended_has_no_memory() -> None:
    with pytest.raises(ValueError, match="ended"):
        parse_memory("Name:\tx\nState:\tZ (zombie)\n", "VmHWM")


def test_this_process_has_used_something() -> None:
    found = usage_of([os.getpid()])
    assert found.cpu > 0
    assert found.peak > 1024 * 1024
