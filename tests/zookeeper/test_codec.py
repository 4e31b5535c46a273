"""What is no record raises one kind of error, and costs no more than it may."""

import subprocess
import sys
import zlib

import pytest

from pyspider_zk.cluster.records import Load, Member
from pyspider_zk.errors import BadMessage
from pyspider_zk.jobs.model import Job
from pyspider_zk.zookeeper.codec import MOST, decode, encode, plain

MEMBER = Member("10.0.0.1:23333", "host", 12, "0.1.0", 1.5)
JUNK = {
    "nothing": b"",
    "text": b"junk",
    "bytes": b"\x00\xff\xfe",
    "number": b"1",
    "list": b"[]",
    "null": b"null",
    "no object": b'"{}"',
    "cut short": plain(MEMBER)[:-1],
    "two": plain(MEMBER) * 2,
    "a key too few": b'{"address": "a:1"}',
    "another type": plain(MEMBER).replace(b"12", b'"12"'),
    "NaN": plain(MEMBER).replace(b"1.5", b"NaN"),
    "no UTF-8": plain(MEMBER).replace(b"host", b"\xff"),
    "too deep": b'{"address": ' + b"[" * 100_000,
    "cut short, compressed": zlib.compress(plain(MEMBER))[:-3],
    "not compressed at all": b"\x78\x9c" + b"junk",
}


@pytest.mark.parametrize("data", JUNK.values(), ids=JUNK)
def test_what_is_no_record_is_refused_by_name(data):
    with pytest.raises(BadMessage, match="this is no Member"):
        decode(Member, data)


def test_too_deep_a_value_is_refused_where_any_value_may_stand():
    deep = b'{"created": 1.0, "work": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"

    with pytest.raises(BadMessage):
        decode(Job, deep)


def test_what_inflates_to_more_than_is_allowed_is_refused_before_it_is_there():
    bomb = zlib.compress(b'{"created": 1.0, "work": {"a": "' + b" " * MOST + b'"}}')

    with pytest.raises(BadMessage, match=f"more than {MOST} bytes"):
        decode(Job, bomb)


def test_a_long_record_is_compressed_and_comes_back():
    job = Job(work={"projects": ["project"] * 1000}, created=1.0)

    assert len(encode(job)) < 1000
    assert decode(Job, encode(job)) == job


def test_unknown_keys_are_ignored_and_missing_ones_have_their_default():
    assert decode(Load, b'{"projects": 3, "of a newer version": [1]}') == Load(3)


FIRST_READERS = """
import sys, threading
from dataclasses import make_dataclass
from pyspider_zk.zookeeper.codec import decode, plain

sys.setswitchinterval(1e-6)
for number in range(300):
    inner = make_dataclass(f"Inner{number}", [("a", int)])
    kind = make_dataclass(f"Kind{number}", [(f"x{n}", dict[str, inner]) for n in range(20)])
    data = plain({f"x{n}": {"k": {"a": 1}} for n in range(20)})
    start = threading.Barrier(4)
    readers = [
        threading.Thread(target=lambda: (start.wait(), decode(kind, data))) for _ in range(4)
    ]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
"""


def test_threads_that_are_the_first_to_read_a_kind_of_record_end_no_process() -> None:
    ended = subprocess.run([sys.executable, "-c", FIRST_READERS], capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")
