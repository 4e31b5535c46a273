"""Inputs are kept in files, and come back as they were."""

from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rpc, web
from tests.fuzz.inputs import Input, Surface, load, save
from tests.fuzz.spare import call_spares, raw_spares, request_spares

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
