"""What fuzzing is made of: inputs, mutations, records, and the judge."""

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.client import KazooClient

from pyspider_zk.local.services import ZooKeeperServer
from tests.fuzz import records, rpc, web
from tests.fuzz.inputs import Input, Surface, call_spares, load, raw_spares, request_spares, save
from tests.fuzz.judge import SPARE, LogReader, Memory, Question, traces
from tests.fuzz.mutate import ODD, mutate_bytes, mutate_message, mutate_record, mutate_value
from tests.fuzz.rpc import _call

CALL = b"<methodCall><methodName>%s</methodName><params>%s</params></methodCall>"
GIVEN = b"<param><value>x</value></param>"


def test_inputs_come_back_as_they_were(tmp_path: Path) -> None:
    inputs = [
        Input("http", "bytes", {"raw": b"\xff\x00", "role": "admin"}),
        Input("records", "x", {"path": "a\u2603", "headers": [["A", "b"]], "number": 3}),
    ]

    save(tmp_path / "new" / "kept.json", "why", inputs)

    assert load(tmp_path / "new" / "kept.json") == inputs


@pytest.mark.parametrize(
    ("method", "path", "body", "spares"),
    [
        ("POST", "/api/v1/batches", b'{"names": ["fuzzed_1"], "filter": {}}', True),
        ("POST", "/api/v1/batches", b'{"filter": {"pattern": "fuzzed_*"}}', True),
        ("POST", "/api/v1/batches", b"{junk", True),
        ("POST", "/api/v1/batches", b'{"filter": {"status": "RUNNING"}}', False),
        ("POST", "/api/v1/%62atches?x=1", b'{"filter": {"all": true}}', False),
        ("GET", "/api/v1/batches", b'{"filter": {"all": true}}', True),
        ("POST", "/api/v1/members/1/drain", b"", False),
        ("POST", "/api/v1/members/77/drain", b"", True),
        ("POST", "/drain", b"", True),
        ("DELETE", "/dav/", b"", False),
        ("DELETE", "/dav/fuzzed_1.py", b"", True),
        ("MOVE", "/dav/fuzzed_1.py/../well_0.py", b"", False),
    ],
)
def test_what_would_stop_the_other_projects_is_not_sent(
    method: str, path: str, body: bytes, spares: bool
) -> None:
    assert request_spares(method, path, body) is spares
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert raw_spares(head + body) is spares


@pytest.mark.parametrize(
    ("method", "given", "spares"),
    [(b"local_drain", b"", False), (b"local_drain", GIVEN, True), (b"size", b"", True)],
)
def test_no_call_ends_a_member(method: bytes, given: bytes, spares: bool) -> None:
    assert call_spares(CALL % (method, given)) is spares


DRAIN = ("POST", "/api/v1/members/7/drain", {"Content-Type": "application/json"}, b"{}")
LOGINS = {role: {"Authorization": f"Basic {role}"} for role in web.ROLES}
SURFACES = (
    web.http_surface("127.0.0.1:1", LOGINS.__getitem__, lambda _: DRAIN),
    web.webdav_surface("127.0.0.1:1", LOGINS.__getitem__),
    rpc.surface(["127.0.0.1:1"], sorted(rpc.USUAL), "secret"),
)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_whatever_chance_draws_can_be_kept(surface: Surface, tmp_path: Path) -> None:
    chance = Random(5)  # noqa: S311 - no secret
    inputs = [surface.draw(chance) for _ in range(2000)]
    save(tmp_path / "kept.json", "why", inputs)
    assert load(tmp_path / "kept.json") == inputs


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(data=st.binary(max_size=300), seed=st.integers())
def test_bytes_depend_on_the_seed_alone(data: bytes, seed: int) -> None:
    first, second = (mutate_bytes(data, _chance(seed)) for _ in range(2))

    assert first == second


@given(value=PLAIN, seed=st.integers())
def test_any_plain_value_can_be_mutated(value: object, seed: int) -> None:
    before = repr(value)

    first, second = (mutate_value(value, _chance(seed)) for _ in range(2))

    assert repr(first) == repr(second)
    assert repr(value) == before


def test_no_number_of_mutations_makes_a_value_too_deep_for_json() -> None:
    value: object = {"a": [1]}

    for seed in range(3000):
        value = mutate_value(value, _chance(seed))
        json.dumps(value, default=repr)


def test_records_and_messages_are_mutated_as_what_they_are() -> None:
    record = json.dumps({"address": "127.0.0.1:1", "pid": 7}).encode()
    made = [mutate_record(record, _chance(seed)) for seed in range(200)]
    packed = [mutate_record(zlib.compress(record), _chance(seed)) for seed in range(200)]
    messages = [
        mutate_message(msgpack.packb({"taskid": "t"}), _chance(seed)) for seed in range(200)
    ]

    assert 50 < sum(map(_is_json, made)) < 200
    assert sum(each[:1] == b"\x78" for each in packed) > 50
    assert 50 < sum(map(_is_msgpack, messages)) <= 200
    assert len(set(made)) > 150


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _is_msgpack(data: bytes) -> bool:
    try:
        msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogatepass")
    except ValueError:
        return False
    return True


def _chance(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - no secret


def test_what_inputs_are_made_of_stays_as_it_is() -> None:
    before = repr(ODD)
    chance = _chance(7)

    for _ in range(3000):
        _call(chance, ["send_task"])

    assert repr(ODD) == before


LEASE = b'{"projects":0}'


@pytest.fixture
def client(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    made = KazooClient(zookeeper.address)
    made.start()
    with closing(made):
        yield made
        made.stop()


def _surface(client: KazooClient, root: str, member: str) -> Surface:
    client.create(f"{root}/members/{member}", LEASE, makepath=True)
    return records.surface(client, root, records.snapshot(client, root))


def _over(surface: Surface) -> Input:
    """Return an input that is written over the member's record."""
    chance = Random(1)  # noqa: S311 - no secret
    while True:
        made = surface.draw(chance)
        if made.parts["how"] == "over" and "[member 0]" in made.parts["path"]:
            return made


@pytest.mark.zk
def test_an_input_is_put_in_the_same_place_of_another_cluster(
    client: KazooClient, zk_root: str
) -> None:
    first = _surface(client, f"{zk_root}-a", "0-aaaaaaaaaaaa")
    second = _surface(client, f"{zk_root}-b", "0-bbbbbbbbbbbb")
    made = _over(first)

    answers = [surface.send(made).kind for surface in (first, second)]

    assert answers == ["written over"] * 2
    data, _ = client.get(f"{zk_root}-b/members/0-bbbbbbbbbbbb")
    assert data == client.get(f"{zk_root}-a/members/0-aaaaaaaaaaaa")[0] != LEASE
    first.rest()
    assert client.get(f"{zk_root}-a/members/0-aaaaaaaaaaaa")[0] == LEASE


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
