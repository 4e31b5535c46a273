"""How often an answer looks at ZooKeeper."""

import pytest

from pyspider_zk.cluster.records import Assignment, Cluster, Meta
from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.webui.api.backend import FRESH_FOR, Readings


def test_who_looks_up_whom_to_ask_has_the_reading_of_this_second() -> None:
    now = [50.0]
    looks = [Cluster(Meta(slots), Assignment.vacant(slots)) for slots in (1, 2, 3)]
    readings = Readings(iter(looks).__next__, lambda: now[0])
    assert readings.read() is readings.recent() is looks[0]
    now[0] += FRESH_FOR + 0.1
    assert readings.recent() is readings.recent() is looks[1]
    assert readings.read() is looks[2]


def test_nobody_waits_again_for_what_did_not_answer_just_now() -> None:
    now = [50.0]
    faults = [SessionLost("gone"), Unavailable("silent")]

    def read() -> Cluster:
        now[0] += 3
        raise faults.pop(0)

    readings = Readings(read, lambda: now[0])
    with pytest.raises(SessionLost):
        readings.read()
    with pytest.raises(Unavailable, match="just now"):
        readings.recent()
    now[0] += FRESH_FOR + 0.1
    with pytest.raises(Unavailable, match="silent"):
        readings.recent()


def test_who_looks_up_whom_to_ask_has_the_last_reading_while_another_is_made() -> None:
    looks = [Cluster(Meta(slots), Assignment.vacant(slots)) for slots in (1, 2)]
    meanwhile: list[Cluster] = []

    def read() -> Cluster:
        if len(looks) == 1:
            meanwhile.append(readings.recent())
        return looks.pop(0)

    readings = Readings(read, lambda: 50.0)
    first = readings.read()
    readings.read()
    assert meanwhile == [first]
