"""Hostile pages and strangers hold nobody up, end nothing, and leave nothing behind: in short.

The tables are what they are said to be, and a task that ended otherwise is a fault.
"""

import itertools
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.hostile.besieged import besieged, site
from tests.hostile.kinds import FAILED, HARMLESS, KINDS, LATE, SUCCESS, HostileRequest
from tests.hostile.load import LOADS
from tests.hostile.parts import MB
from tests.hostile.run import under_pages, under_strangers
from tests.support.needed import skip_without_needed

PAGES = 150
AT_ONCE = 10


@pytest.mark.hostile
@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
def test_hostile_pages_and_strangers_hold_up_nobody(tmp_path: Path) -> None:
    quick = [kind for kind in KINDS if not kind.slow]
    with skip_without_needed(), besieged(tmp_path) as cluster:
        assert list(under_pages(cluster, quick, PAGES)) == []
        assert list(under_strangers(cluster, LOADS, AT_ONCE)) == []


ASKED = HostileRequest("http://127.0.0.1:1", "http://127.0.0.1:2", "")
MOST = 32 * MB  # bytes that a page which ends has on the wire


@pytest.fixture(scope="module")
def sites() -> Iterator[Mapping[str, str]]:
    with site("http://127.0.0.1:2") as urls:
        yield urls


def row(status: int, error: str = "") -> dict[str, Any]:
    return {"status": status, "track": {"fetch": {"error": error}, "process": {}}}


def test_there_are_enough_kinds_and_each_name_is_one() -> None:
    for table, least in ((KINDS, 60), (LOADS, 20)):
        names = [each.name for each in table]
        assert len(set(names)) == len(names) >= least


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_answer_is_made_of_bytes_and_pauses(kind: Any) -> None:
    for answer in filter(None, (kind.answer, kind.robots)):
        pieces = list(itertools.islice(answer(ASKED), 20))
        assert all(isinstance(each, bytes | float) for each in pieces)
        assert sum(len(each) for each in pieces if isinstance(each, bytes)) < MOST


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "there is no task"),
        (row(1), "status 1"),
        (row(SUCCESS), "status 2"),
        (row(FAILED, "no memory"), "failed without"),
        (row(FAILED, "timed out: root:x:0:0:"), "tells a file"),
        (row(FAILED, "Operation timed out"), ""),
    ],
)
def test_a_task_that_ends_otherwise_is_a_fault(found: Any, told: str) -> None:
    assert told in LATE.fault(found)
    assert bool(LATE.fault(found)) == bool(told)


def test_harmless_is_no_failure() -> None:
    assert HARMLESS.fault(row(FAILED, "whatever")).startswith("status 3")
    assert HARMLESS.fault(row(SUCCESS)) == ""


def test_the_site_sends_what_the_table_says(sites: Mapping[str, str]) -> None:
    assert asked(sites["no-status"]) == b"<title>fine</title>"
    assert b"\xff\xfe" in asked(sites["redirect-bytes"])
    home, _, _ = sites["no-status"].rpartition("/")
    assert b"/healthy/p/3/2" in asked(f"{home}/healthy/p/3/0")
    assert b'"/p/3/0": 1' in asked(f"{home}/asked")
    robots, _, _ = sites["robots-loop"].rpartition("/")
    assert b"Location: /robots.txt" in asked(f"{robots}/robots.txt")


def asked(url: str) -> bytes:
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as link:
        link.sendall(f"GET {place.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return b"".join(iter(lambda: link.recv(2**16), b""))
