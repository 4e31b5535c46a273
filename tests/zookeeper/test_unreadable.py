"""What cannot be read is said once, shown while it stands, and bounded."""

import pytest

from pyspider_zk.errors import BadMessage
from pyspider_zk.zookeeper.unreadable import LONGEST, MOST, Unreadable


def test_each_path_and_reason_is_logged_once(caplog: pytest.LogCaptureFixture):
    unreadable = Unreadable()
    for reason in ("no number", "no number", "no name", "no name"):
        unreadable.note("/ids/junk", BadMessage(reason))
    told = [record.getMessage() for record in caplog.records]
    assert [("/ids/junk" in text, "no number" in text) for text in told] == [
        (True, True),
        (True, False),
    ]
    assert unreadable.mapping() == {"/ids/junk": "no name"}


def test_what_was_forgotten_is_told_again(caplog: pytest.LogCaptureFixture):
    unreadable = Unreadable()
    unreadable.note("/ids/junk", "no number")
    unreadable.forget("/ids/junk", "/ids/never-noted")
    assert unreadable.mapping() == {}
    unreadable.note("/ids/junk", "no number")
    assert len(caplog.records) == 2


def test_what_is_gone_is_forgotten_whatever_was_wrong_with_it():
    unreadable = Unreadable()
    assert unreadable.parsed("/ids", ["1", "junk", "2"], number) == {"1": 1, "2": 2}
    unreadable.decoded("/ids/1", (b"x", 0), number)
    unreadable.decoded("/ids/2", (b"x", 0), number)
    unreadable.note("/ids/1/below", "it is of another parent")
    for path in ("/ids/1/*", "/ids/2/*"):
        unreadable.note(path, "it may not be looked at")

    assert unreadable.parsed("/ids", ["2"], number) == {"2": 2}

    assert set(unreadable.mapping()) == {"/ids/2", "/ids/2/*", "/ids/1/below"}


def number(text: str | bytes) -> int:
    if not text.isdigit():
        raise BadMessage("no number")
    return int(text)


def test_neither_paths_nor_reasons_grow_without_end(caplog: pytest.LogCaptureFixture):
    unreadable = Unreadable()
    for number in range(MOST + 5):
        unreadable.note(f"/ids/junk-{number}", "x" * 10_000)
    mapping = unreadable.mapping()
    assert len(mapping) == MOST
    assert {len(reason) for reason in mapping.values()} == {LONGEST}
    assert len(caplog.records) == MOST + 1
    unreadable.forget("/ids/junk-0")
    unreadable.note("/ids/late", "no number")
    assert "/ids/late" in unreadable.mapping()
