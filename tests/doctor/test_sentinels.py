"""What the doctor finds about real sentinels."""

from pathlib import Path

import pytest

from pyspider_zk.doctor.findings import Grade
from pyspider_zk.local.services import RedisServer
from tests.doctor.conftest import Examine, graded
from tests.support.replicated_redis import MASTER_NAME, replicated_redis
from tests.support.waiting import eventually

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def test_sentinels_are_examined_as_they_go(
    examined: Examine,
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path: Path,
) -> None:
    with replicated_redis(tmp_path) as it:
        master, replica = it.servers
        found = examined("Redis", message_queue=it.url)
        well = graded(found, Grade.OK)
        assert f"{master.address} is the master, which 3 of 3 sentinels name" in well
        assert "1 replica is connected" in well
        assert "it accepts writes" in well

        replica.stop()
        eventually(
            lambda: (
                "no replica is connected"
                in graded(examined("Redis", message_queue=it.url), Grade.WARNING)
            ),
            "the replica's end is seen",
        )

        gone = it.sentinels.pop()
        gone.stop()
        warned = graded(examined("Redis", message_queue=it.url), Grade.WARNING)
        assert f"which 2 of 3 sentinels name; {gone.address}: " in warned

        wrong = it.url.replace(f"/{MASTER_NAME}/", "/another/")
        told = graded(examined("Redis", message_queue=wrong), Grade.FAILED)
        assert "knows no such master" in told


def test_the_passwords_of_nobody_who_answers_are_not_shown(examined: Examine) -> None:
    url = f"redis+sentinel://:hidden%20one@127.0.0.1:1/{MASTER_NAME}?sentinel_password=hidden%20too"
    found = examined("Redis", message_queue=url)
    assert "no sentinel answers" in graded(found, Grade.FAILED)
    assert "hidden" not in str(found)
    assert "the sentinels' password" in graded(
        examined("secrets", message_queue=url), Grade.WARNING
    )
