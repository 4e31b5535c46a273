"""The lines about tasks are as a logger would write them."""

import logging
import threading
from collections.abc import Iterator

import pytest
from pyspider.libs.task_log import TaskLog
from pyspider.scheduler import scheduler

LINE = "select %(project)s:%(taskid)s %(url)s"
TASK = {"project": "p", "taskid": "t", "url": "http://site.example/"}
MOMENT = ("created", "msecs", "relativeCreated", "lineno")


class Kept(logging.Handler):
    """A handler that keeps the records, each with its text."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.message = record.getMessage()
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Give what the logger of a test was told."""
    made = Kept()
    logger = logging.getLogger("test.task_log")
    logger.propagate = False
    logger.addHandler(made)
    logger.setLevel(logging.INFO)
    yield made
    logger.removeHandler(made)


def logged(log: TaskLog, times: int = 1) -> None:
    for _ in range(times):
        log.info(LINE, TASK)


def lasting(record: logging.LogRecord) -> dict[str, object]:
    """Return what of a record does not depend on when it was made."""
    return {key: value for key, value in vars(record).items() if key not in MOMENT}


def test_a_record_says_what_a_loggers_own_says(kept: Kept) -> None:
    logger = logging.getLogger("test.task_log")
    log = TaskLog(logger)
    for _ in range(2):
        log.info(LINE, TASK)
    logger.info(LINE, TASK)

    first, second, own = kept.records
    assert lasting(first) == lasting(second) == lasting(own)
    assert own.lineno == second.lineno + 1
    assert own.message == "select p:t http://site.example/"
    assert first.created <= second.created <= own.created
    passed = (own.created - second.created) * 1000
    assert own.relativeCreated - second.relativeCreated == pytest.approx(passed, abs=0.01)
    assert second.msecs == int(second.created % 1 * 1000)


def test_each_thread_has_its_name(kept: Kept) -> None:
    log = TaskLog(logging.getLogger("test.task_log"))
    logged(log)
    thread = threading.Thread(target=logged, args=(log, 2), name="another")
    thread.start()
    thread.join()
    logged(log)

    here = threading.current_thread().name
    assert [each.threadName for each in kept.records] == [here, "another", "another", here]


def test_a_thread_that_got_the_id_of_an_ended_one_has_its_own_name(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TaskLog(logging.getLogger("test.task_log"))
    logged(log)
    monkeypatch.setattr(threading.current_thread(), "name", "the next one")
    logged(log)

    assert kept.records[1].threadName == "the next one"


def test_a_process_that_was_forked_logs_its_own_id(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TaskLog(logging.getLogger("test.task_log"))
    logged(log)
    monkeypatch.setattr("os.getpid", lambda: -7)
    logged(log)

    assert kept.records[1].process == -7


def test_a_logger_that_makes_records_of_its_own_makes_each(kept: Kept) -> None:
    class OwnLogger(logging.Logger):
        made = 0

        def makeRecord(self, *args: object, **kwargs: object) -> logging.LogRecord:  # noqa: N802
            self.made += 1
            return super().makeRecord(*args, **kwargs)  # type: ignore[arg-type]

    logger = OwnLogger("own", logging.INFO)
    logger.addHandler(kept)
    logged(TaskLog(logger), 3)

    assert logger.made == 3


def test_nothing_is_logged_below_the_level_or_past_a_filter(kept: Kept) -> None:
    logger = logging.getLogger("test.task_log")
    logger.setLevel(logging.WARNING)
    logged(TaskLog(logger))
    logger.setLevel(logging.INFO)
    logger.addFilter(lambda record: "other" in record.getMessage())
    try:
        logged(TaskLog(logger))
    finally:
        logger.filters.clear()

    assert kept.records == []


def test_whoever_makes_records_of_another_class_makes_these(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Numbered(logging.LogRecord):
        made = 0

        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            Numbered.made += 1
            self.number = Numbered.made

    log = TaskLog(logging.getLogger("test.task_log"))
    logged(log)
    monkeypatch.setattr(logging, "_logRecordFactory", Numbered)
    logged(log, 2)

    assert [vars(each).get("number") for each in kept.records] == [None, 1, 2]
    assert {each.funcName for each in kept.records} == {"logged"}


def test_the_scheduler_logs_its_lines_about_tasks_so() -> None:
    assert scheduler.task_log._logger is scheduler.logger
