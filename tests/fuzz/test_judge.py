"""The judge's parts: what they find, and what they let pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.judge import SPARE, LogReader, Memory, Question, traces

HEAD = "[{} 261122 06:18:11 {}] {}\n"
TRACE = """    Traceback (most recent call last):
      File "/x/y/part.py", line 7, in work
        value["a"]
    {}
"""
UNANSWERED = HEAD.format("I", "rpc:198", "a call was not answered")
GOOD = HEAD.format("I", "scheduler:967", "select a:b")


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (GOOD + GOOD, []),
        (HEAD.format("E", "app:875", "Exception on / [GET]") + TRACE.format("KeyError: 1"), [7]),
        (
            GOOD
            + "Exception in thread Thread-1 (run):\n"
            + TRACE.format("OSError: x").replace("    ", "", 1),
            [7],
        ),
        (HEAD.format("E", "scheduler:273", "round failed") + TRACE.format("KeyError: 1"), [7]),
        (UNANSWERED + TRACE.format("KeyError: 1"), [7]),
        (
            UNANSWERED + TRACE.format("BrokenPipeError: x"),
            [],
        ),
        (HEAD.format("E", "processor:81", "process a:b failed") + TRACE.format("KeyError: 1"), []),
    ],
)
def test_tracebacks_are_found_where_nobody_says_whose_fault_it_is(
    log: str, found: list[int]
) -> None:
    kept = [trace for trace in traces(log) if not trace.excused]

    assert [trace.place for trace in kept] == [f"part.py:{line} work" for line in found]


def test_logs_are_read_once_and_records_whole(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    record = HEAD.format("E", "a:1", "failed") + TRACE.format("KeyError: 1")
    reader = LogReader(lambda: {"one": log})
    log.write_text(GOOD + record[:80])
    first = reader.news()
    with log.open("a") as file:
        file.write(record[80:] + GOOD)

    assert first == {"one": GOOD}
    assert reader.news() == {"one": record}
    assert reader.news() == {"one": GOOD}
    assert reader.news() == {}


def test_a_leak_is_found() -> None:
    grow = f"""if True:
        import sys
        print("at rest", flush=True)
        sys.stdin.readline()
        kept = b"x" * {SPARE + 2**25}
        print("grown", flush=True)
        sys.stdin.readline()"""
    memory = Memory()
    with subprocess.Popen(
        [sys.executable, "-c", grow], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        memory.rest = memory.sample({"leaky": process.pid})
        memory.end = memory.sample({"leaky": process.pid})
        honest = memory.faults()
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        memory.end = memory.sample({"leaky": process.pid})
        process.stdin.close()

    assert honest == []
    assert len(memory.faults()) == 1
    assert "leaky keeps" in memory.faults()[0]


def test_what_does_not_answer_is_told() -> None:
    assert "it: no right answer" in Question("it", lambda: False, patience=0).look()
    assert Question("it", lambda: False, patience=60).look() == ""
    assert Question("it", lambda: True, patience=0).look() == ""
