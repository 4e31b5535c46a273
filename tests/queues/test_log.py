"""What every implementation of ClusterLog must do, and what is found in it."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pyspider_zk.queues.log_lines import (
    KEPT,
    MESSAGE,
    TRACEBACK,
    ClusterLog,
    LogFilter,
    LogLine,
    read_log,
)
from pyspider_zk.queues.names import LOG
from tests.queues.conftest import RedisBackend

LINE = LogLine(1000.5, "warning", "processor", "box", 7, "processor", "slow", "news", "t1")
ALL = LogFilter()


def messages(log: ClusterLog, wanted: LogFilter = ALL, limit: int = 99) -> list[str]:
    return [line.message for _, line in read_log(log, wanted, "", limit)[0]]


def test_lines_come_back_as_they_are_the_latest_first_page_by_page(backend: Any) -> None:
    odd = replace(LINE, message="\u2603" * MESSAGE, traceback="x" * TRACEBACK, task="")
    backend.process().log.append([LINE, odd])
    backend.process().log.append([replace(LINE, message="third")])
    log = backend.process().log
    page, following = read_log(log, ALL, "", 2)
    assert [line for _, line in page] == [replace(LINE, message="third"), odd]
    assert following == page[-1][0]
    rest, end = read_log(log, ALL, following, 2)
    assert [line for _, line in rest] == [LINE]
    assert end is None


def test_what_stands_behind_a_line_is_read_the_oldest_first(backend: Any) -> None:
    log = backend.process().log
    assert log.behind("", 9) == []
    log.append([LINE, replace(LINE, message="b"), replace(LINE, message="c")])
    (first, line), *others = log.behind("", 9)
    assert line == LINE
    assert log.behind(first, 9) == others
    assert [line.message for _, line in others] == ["b", "c"]
    assert log.behind(first, 1) == others[:1]
    assert log.behind(others[-1][0], 9) == []


def test_lines_are_filtered(backend: Any) -> None:
    log = backend.process().log
    log.append(
        [
            LINE,
            replace(LINE, level="critical", message="a", project="shop", traceback="KeyError: X"),
            replace(LINE, level="error", message="b", component="webui", project=""),
        ]
    )
    assert messages(log, LogFilter("error")) == ["b", "a"]
    assert messages(log, LogFilter("critical")) == ["a"]
    assert messages(log, LogFilter(component="processor")) == ["a", "slow"]
    assert messages(log, LogFilter(project="news")) == ["slow"]
    assert messages(log, LogFilter(text="keyerror: x")) == ["a"]
    assert messages(log, LogFilter(text="SLO", project="shop")) == []


@pytest.mark.redis
def test_a_search_ends_before_it_has_looked_at_all_and_can_go_on(
    redis_backend: RedisBackend,
) -> None:
    log = redis_backend.process().log
    log.append([LINE])
    with redis_backend.client.pipeline(transaction=False) as pipe:
        for _ in range(KEPT):
            pipe.xadd(LOG, {"x": "y"})
        pipe.execute()
    found, following = read_log(log, ALL, "", 1)
    assert found == []
    assert following
    assert read_log(log, ALL, following, 2)[0][0][1] == LINE


@pytest.mark.redis
def test_the_oldest_are_dropped(redis_backend: RedisBackend) -> None:
    log, client = redis_backend.process().log, redis_backend.client
    for _ in range(3):
        log.append([LINE] * (KEPT // 2))
    assert KEPT <= client.xlen(LOG) < KEPT + 100  # whole nodes of the stream are dropped


@pytest.mark.redis
@pytest.mark.parametrize(
    "fields",
    [
        {"x": "y"},
        {"line": ""},
        {"line": b"\xc1"},
        {"line": b"\x81\x91\x01\x02"},
        {"line": msgspec.msgpack.encode(replace(LINE, level="spam"))},
        {"line": msgspec.msgpack.encode(replace(LINE, message="x" * (MESSAGE + 1)))},
        {"line": msgspec.msgpack.encode({**msgspec.to_builtins(LINE), "host": b"\xff"})},
        {"line": msgspec.msgpack.encode({**msgspec.to_builtins(LINE), "at": "now"})},
        {"line": msgspec.msgpack.encode(LINE).replace(b"news", b"\xff\xff\xff\xff")},
        {"line": b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0"},
    ],
)
def test_what_is_no_line_is_passed_over(
    redis_backend: RedisBackend, fields: dict[str, Any]
) -> None:
    log, client = redis_backend.process().log, redis_backend.client
    log.append([LINE])
    client.xadd(LOG, fields)
    log.append([replace(LINE, message="after")])
    assert messages(log) == ["after", "slow"]


@pytest.mark.redis
@pytest.mark.parametrize(
    "tag", ["18446744073709551614-1", "18446744073709551615-18446744073709551614"]
)
def test_ids_at_the_end_of_all_ids_stop_nobody(redis_backend: RedisBackend, tag: str) -> None:
    log, client = redis_backend.process().log, redis_backend.client
    client.xadd(LOG, {"x": "y"}, id=tag)
    for each in ("a", "b", "c"):
        log.append([replace(LINE, message=each)])
    (latest,), following = read_log(log, ALL, "", 1)
    assert latest[1].message == "c"
    assert [line.message for _, line in read_log(log, ALL, str(following), 1)[0]] == ["b"]


@pytest.mark.redis
@pytest.mark.parametrize("tag", ["0-0", "00000000000000000000-0", "99999999999999999999-9"])
def test_any_two_numbers_are_a_place_in_it(redis_backend: RedisBackend, tag: str) -> None:
    log = redis_backend.process().log
    log.append([LINE])
    assert len(read_log(log, ALL, tag, 9)[0]) == tag.startswith("9")


@pytest.mark.redis
def test_a_key_of_another_type_is_set_aside(redis_backend: RedisBackend) -> None:
    queues = redis_backend.process()
    redis_backend.client.set(LOG, "x")
    assert messages(queues.log) == []
    redis_backend.client.set(LOG, "x")
    queues.log.append([LINE])
    assert messages(queues.log) == ["slow"]
    assert len(queues.slot_queues.unreadable()) == 2
