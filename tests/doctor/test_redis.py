"""What the doctor finds about real Redis servers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from pyspider_zk.config import Settings
from pyspider_zk.doctor.findings import Grade
from pyspider_zk.local.services import RedisServer
from tests.doctor.conftest import Examine, graded
from tests.support.secured_servers import SpecialRedis, authority, tls_redis

pytestmark = pytest.mark.redis

PASSWORD = "a password of the tests"  # noqa: S105


@contextmanager
def configured(server: RedisServer, options: Mapping[str, str]) -> Iterator[redis.Redis]:
    """Change the configuration of a Redis while the block runs."""
    with redis.Redis.from_url(server.url) as client:
        before = {name: client.config_get(name)[name] for name in options}
        for name, value in options.items():
            client.config_set(name, value)
        try:
            yield client
        finally:
            for name, value in before.items():
                client.config_set(name, value)


def test_a_redis_with_a_password_and_a_log_is_well(examined: Examine, tmp_path: Path) -> None:
    with RedisServer(tmp_path, password=PASSWORD) as server:
        found = examined("Redis", message_queue=server.url)

    assert {each.grade for each in found} == {Grade.OK}, found
    told = graded(found, Grade.OK)
    assert "it answers nobody without a password" in told
    assert "appendonly yes, appendfsync everysec" in told
    assert "maxmemory-policy noeviction" in told
    assert "its clock agrees" in told


def test_a_wrong_password_is_refused_and_not_shown(examined: Examine, tmp_path: Path) -> None:
    with RedisServer(tmp_path, password=PASSWORD) as server:
        url = f"redis://:wrong%20password@{server.address}/0"
        found = examined("Redis", message_queue=url)

    assert "it refuses our login" in graded(found, Grade.FAILED)
    assert "wrong" not in str(found)


def test_an_open_redis_is_warned_of(examined: Examine, redis_server: RedisServer) -> None:
    found = examined("Redis", message_queue=redis_server.url)
    assert "reachable without a password" in graded(found, Grade.WARNING)


@pytest.mark.parametrize(
    ("options", "grade", "text"),
    [
        ({"appendonly": "no"}, Grade.FAILED, "appendonly is off"),
        ({"appendfsync": "no"}, Grade.WARNING, "appendfsync no"),
        ({"maxmemory-policy": "allkeys-lru"}, Grade.WARNING, "maxmemory-policy allkeys-lru"),
        (
            {"maxmemory-policy": "volatile-lru", "maxmemory": "1gb"},
            Grade.FAILED,
            "maxmemory-policy volatile-lru",
        ),
        ({"maxmemory": "1mb"}, Grade.FAILED, "of maxmemory is used"),
    ],
)
def test_a_configuration_that_loses_messages(
    examined: Examine,
    redis_server: RedisServer,
    options: Mapping[str, str],
    grade: Grade,
    text: str,
) -> None:
    with configured(redis_server, options):
        found = examined("Redis", message_queue=redis_server.url)
    assert text in graded(found, grade)


def test_a_replica_is_a_failure(
    examined: Examine, redis_server: RedisServer, tmp_path: Path
) -> None:
    host, _, port = redis_server.address.partition(":")
    with SpecialRedis(tmp_path, {"replicaof": f"{host} {port}"}) as replica:
        found = examined("Redis", message_queue=replica.url)
    assert "it is a replica" in graded(found, Grade.FAILED)


def test_a_login_that_may_not_look_is_told_so(examined: Examine, redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        rules = ["on", f">{PASSWORD}", "~*", "+@all", "-@admin", "-@dangerous"]
        client.execute_command("ACL", "SETUSER", "crawl", *rules)
        try:
            login = f"crawl:{PASSWORD.replace(' ', '%20')}"
            found = examined("Redis", message_queue=f"redis://{login}@{redis_server.address}/0")
        finally:
            client.execute_command("ACL", "DELUSER", "crawl")
    warned = [each for each in found if each.grade is Grade.WARNING]
    assert "our login may not use INFO" in graded(found, Grade.WARNING)
    assert any("+info" in each.remedy for each in warned)
    assert "version" in graded(found, Grade.OK)


def test_tls_is_well(examined: Examine, tmp_path: Path) -> None:
    files = authority(tmp_path)
    with tls_redis(tmp_path / "redis", files) as (_, address):
        found = examined("Redis", message_queue=f"rediss://{address}/0?ssl_ca_certs={files.ca}")
    assert "TLS" in graded(found, Grade.OK).splitlines()


def test_nobody_answers(examined: Examine) -> None:
    found = examined("Redis", Settings(), message_queue="redis://:hidden%20one@127.0.0.1:1/0")
    assert "Redis at 127.0.0.1:1" in graded(found, Grade.FAILED)
    assert "hidden" not in str(found)


def test_none_is_named(examined: Examine) -> None:
    assert "no message queue is named" in graded(examined("Redis"), Grade.FAILED)
