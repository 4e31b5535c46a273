"""What every implementation of SlotRecords must do."""

from typing import Any

import msgpack
import pytest

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.api import SlotRecords

RECORD = {"tasks": [{"taskid": "a", "blob": b"\x00"}], "tick": 1.5, "paused": False, "n": None}


@pytest.fixture
def records(backend: Any) -> SlotRecords:
    return backend.process().records


def test_a_record_is_loaded_as_saved_by_another_process(backend: Any, records: SlotRecords) -> None:
    records.save_many({3: RECORD})
    assert backend.process().records.load(3) == RECORD


def test_a_record_stays_until_dropped(records: SlotRecords) -> None:
    records.save_many({3: RECORD})
    assert records.load(3) == records.load(3) == RECORD
    records.drop_many([3])
    records.drop_many([3])
    assert records.load(3) is None


def test_saving_again_replaces_the_record(records: SlotRecords) -> None:
    records.save_many({3: RECORD})
    records.save_many({3: {"epoch": 2}})
    assert records.load(3) == {"epoch": 2}


def test_an_empty_record_is_a_record(records: SlotRecords) -> None:
    records.save_many({0: {}})
    assert records.load(0) == {}


def test_many_records_at_once(records: SlotRecords) -> None:
    many = {slot: {"slot": slot} for slot in range(300)}
    records.save_many(many)
    assert records.load_many([*range(300), 999]) == many
    records.drop_many(range(299))
    assert records.load_many(range(300)) == {299: {"slot": 299}}


def test_no_records_at_once(records: SlotRecords) -> None:
    records.save_many({})
    records.drop_many([])
    assert records.load_many([]) == {}


def test_a_record_of_some_megabytes(records: SlotRecords) -> None:
    record = {"tasks": [{"taskid": str(n), "url": "x" * 100} for n in range(30_000)]}
    records.save_many({1: record})
    assert records.load(1) == record


def test_a_record_without_a_wire_form_is_refused_by_slot(records: SlotRecords) -> None:
    with pytest.raises(BadMessage, match=r"record of slot 7: .*'set'"):
        records.save_many({7: {"tasks": {1}}})
    assert records.load(7) is None


@pytest.mark.parametrize(
    "raw", [b"\xc1", msgpack.packb([1]), b"", b"\x81" * 100_000, b"\x81\x91\x01\x02"]
)
def test_bytes_that_are_no_record_are_told_and_the_others_are_loaded(
    backend: Any, records: SlotRecords, caplog: pytest.LogCaptureFixture, raw: bytes
) -> None:
    records.save_many({6: RECORD})
    backend.put_record(7, raw)
    assert records.load_many(range(8)) == {6: RECORD}
    assert "record of slot 7 is no" in caplog.text
    assert records.load(7) is None
