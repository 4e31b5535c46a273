"""What stands in ZooKeeper survives the way there and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.records import (
    Assignment,
    Cluster,
    Component,
    ComponentKind,
    Load,
    Member,
    Meta,
    Phase,
    Slot,
    check_meta,
    decode_acks,
    encode_acks,
)
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.projects.slots import slot_of

A, B = MemberId(0, "aaa"), MemberId(1, "bbb")
MEMBER = Member("10.0.0.1:23333", "host", 12, "0.1.0", 1.5, "name", draining=True)
RECORDS = [
    Meta(256),
    MEMBER,
    Component("host", 12, "0.1.0", 1.5, "10.0.0.1:5000"),
    Load(3, 40),
]

members = st.builds(MemberId, st.integers(0, 200), st.text("0123456789abcdef", min_size=1))
rows = st.builds(Slot, members, st.integers(0, 10**9), st.none() | members) | st.builds(
    Slot, st.none(), st.integers(0, 10**9), st.none()
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_survives(record):
    assert type(record).decode(record.encode()) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_keys_of_a_newer_version_are_ignored(record):
    newer = {**json.loads(record.encode()), "invented_later": [1, 2]}

    assert type(record).decode(json.dumps(newer).encode()) == record


@given(members)
def test_a_member_id_survives(member):
    assert MemberId.parse(str(member)) == member


@pytest.mark.parametrize(
    "text",
    ["", "note", "-1-a", "1-", "01-a", "1", "1-a b", "1-a/b", "\u0661-a", "1-\0", "9" * 10 + "-a"],
)
def test_what_is_no_member_id_is_refused(text):
    with pytest.raises(BadMessage):
        MemberId.parse(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        b"[]",
        b"[" * 9999,
        b'{"epoch": 1, "members": [], "slots": [[-1, 0, -1]]}',
        b'{"epoch": -1, "members": [], "slots": [[-1, 0, -1], [-1, 0, -1]]}',
        b'{"epoch": 1, "members": ["x"], "slots": [[0, 1, -1], [0, 1, -1]]}',
        b'{"epoch": 1, "members": ["0-a"], "slots": [[1, 1, -1], [0, 1, -1]]}',
        b'{"epoch": 1, "members": ["0-a"], "slots": [[-2, 1, -1], [0, 1, -1]]}',
        b'{"epoch": 1, "members": ["0-a"], "slots": [[0, -1, -1], [0, 1, -1]]}',
        b'{"epoch": 1, "members": ["0-a"], "slots": [[0, 1e300, -1], [0, 1, -1]]}',
        b'{"epoch": 1, "members": ["0-a"], "slots": [[0, 1], [0, 1, -1]]}',
        b'{"epoch": 1, "members": ["0-a"], "slots": [[-1, 1, 0], [0, 1, -1]]}',
    ],
)
def test_what_is_no_table_of_the_cluster_is_refused(data):
    with pytest.raises(BadMessage):
        Assignment.decode(data, 2)


@pytest.mark.parametrize("data", [b"junk", b"[]", b'{"x": 1}', b'{"1": "x"}', b'{"1": null}'])
def test_what_is_no_acks_is_refused(data):
    with pytest.raises(BadMessage):
        decode_acks(data)


@pytest.mark.parametrize("slots", [0, -1, 16385, 10**15])
def test_values_that_no_cluster_is_born_with_are_refused(slots):
    with pytest.raises(BadMessage):
        Meta.decode(Meta(slots).encode())


def test_members_are_ordered_by_number_not_by_text():
    assert sorted([MemberId(10, "a"), MemberId(9, "b")])[0].number == 9


@given(st.integers(0, 10**9), st.lists(rows, max_size=30))
def test_an_assignment_survives(epoch, table):
    assignment = Assignment(epoch, tuple(table))

    assert Assignment.decode(assignment.encode()) == assignment


@given(st.dictionaries(st.integers(0, 16383), st.integers(0, 10**9)))
def test_acks_survive(acks):
    assert decode_acks(encode_acks(acks)) == acks


def test_no_acks_are_no_bytes():
    assert decode_acks(b"") == {}


def test_the_largest_assignment_is_far_below_a_mebibyte():
    crowd = [MemberId(number, "0123456789ab") for number in range(100)]
    table = [Slot(crowd[i % 100], 1_000_000 + i, crowd[(i + 1) % 100]) for i in range(16384)]

    assert len(Assignment(10**6, tuple(table)).encode()) < 2**20 / 2


def test_the_phase_follows_from_who_is_named():
    assert Slot().phase is Phase.VACANT
    assert Slot(A, 1).phase is Phase.OWNED
    assert Slot(A, 1, B).phase is Phase.RELEASING


def test_a_releasing_slot_is_not_owned_any_more():
    assignment = Assignment(1, (Slot(A, 5), Slot(A, 6, B), Slot(B, 7), Slot()))

    assert assignment.owned_by(A) == {0: 5}
    assert assignment.releasing_by(A) == {1: 6}
    assert assignment.owned_by(B) == {2: 7}


def test_meta_of_the_same_cluster_is_accepted():
    assert check_meta(Meta(256), 256, "/r") is None


def test_meta_of_a_cluster_of_the_first_version_is_accepted():
    assert check_meta(Meta.decode(b'{"slots": 256, "protocol": 1}'), 256, "/r") is None


def test_who_says_nothing_of_protocols_speaks_the_first():
    said = b'{"address": "h:1", "host": "h", "pid": 1, "version": "0", "started": 0}'

    assert Member.decode(said).protocols == Component.decode(said).protocols == (1, 1)


def test_another_slot_count_is_told_with_both_numbers_and_the_root():
    fault = check_meta(Meta(256), 64, "/r")

    assert fault is not None
    assert {"256", "64", "/r"} <= set(fault.replace(":", " ").replace(",", " ").split())


def test_another_protocol_is_told_first():
    fault = check_meta(Meta(256, protocol=2), 64, "/r")

    assert fault is not None
    assert "protocol 2" in fault


def cluster() -> Cluster:
    return Cluster(
        Meta(4),
        Assignment(9, (Slot(A, 1), Slot(A, 2), Slot(B, 3), Slot())),
        leader=A,
        members={A: MEMBER},
        loads={A: Load(7, 8)},
        components={ComponentKind.FETCHER: {"f1": RECORDS[2]}},
    )


def test_slots_are_counted_with_those_of_owners_that_are_gone():
    assert cluster().slot_counts() == {A: 2, B: 1}


def test_the_owner_of_a_project_is_the_running_owner_of_its_slot():
    found = cluster()
    owners = {slot_of(f"p{i}", 4): found.owner_of(f"p{i}") for i in range(40)}

    assert owners == {0: MEMBER, 1: MEMBER, 2: None, 3: None}


def test_the_dictionary_is_json_with_all_that_status_shows():
    told = json.loads(json.dumps(cluster().as_dict()))

    assert (told["epoch"], told["slots"], told["leader"]) == (9, 4, 0)
    assert told["unserved_slots"] == 2
    member = told["members"][0]
    assert (member["number"], member["slots"], member["projects"], member["leader"]) == (
        0,
        2,
        7,
        True,
    )
    assert told["components"]["fetcher"][0]["id"] == "f1"
