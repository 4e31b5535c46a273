"""What a profile's functions are counted for."""

from tests.bench.profiled import OTHER, by_part, costliest, part_of

LOAD = ("/lib/pyspider/scheduler/scheduler.py", 1, "on_request")
EXECUTE = ("~", 0, "<method 'execute' of 'sqlite3.Cursor' objects>")
LENGTH = ("~", 0, "<built-in method builtins.len>")
SLEEP = ("~", 0, "<built-in method time.sleep>")
ROWS = ("/x/pyspider_zk/tasks/sql.py", 1, "get_many")
UNKNOWN = ("/lib/x.py", 1, "f")


def test_a_function_belongs_to_the_part_of_its_file_or_name() -> None:
    assert part_of(EXECUTE) == part_of(ROWS) == "database"
    assert part_of(LOAD) == "pyspider's decisions and task queues"
    assert part_of(UNKNOWN) is None


def test_what_is_built_in_counts_for_its_caller() -> None:
    stats = {
        LOAD: (1, 1, 1.0, 2.0, {}),
        LENGTH: (1, 1, 1.0, 1.0, {LOAD: (1, 1, 1.0, 1.0)}),
        EXECUTE: (1, 1, 2.0, 2.0, {LOAD: (1, 1, 2.0, 2.0)}),
    }
    assert by_part(stats) == {"pyspider's decisions and task queues": 0.5, "database": 0.5}


def test_waiting_is_no_work() -> None:
    stats = {SLEEP: (9, 9, 90.0, 90.0, {}), UNKNOWN: (1, 1, 1.0, 1.0, {})}
    assert by_part(stats) == {OTHER: 1.0}
    assert [each["function"] for each in costliest(stats, 5)] == ["lib/x.py:f"]
