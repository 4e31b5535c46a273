"""pyspider's own queue at the master that sentinels name."""

from pathlib import Path

import pytest

from pyspider_zk.local.services import RedisServer
from tests.support.replicated_redis import replicated_redis, secured_replicated_redis
from tests.support.secured_servers import authority


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "secured"])
def test_a_message_passes_through_the_master(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path: Path,
    how: str,
) -> None:
    from pyspider.message_queue import connect_message_queue

    plain, secured = replicated_redis, secured_replicated_redis
    login = (authority(tmp_path), "of/Redis@?", "of/sentinels@&")
    with plain(tmp_path) if how == "plain" else secured(tmp_path, *login) as it:
        queue = connect_message_queue("fetcher2processor", it.url, 1)
        queue.put_nowait({"a": "message"})
        assert queue.full()
        assert queue.get_nowait() == {"a": "message"}
        queue.redis.close()


@pytest.mark.parametrize("place", ["h", "/s", "h:x/s"])
def test_a_url_that_cannot_work_is_no_queue(place: str) -> None:
    from pyspider.message_queue import connect_message_queue

    with pytest.raises(ValueError, match=r"missing|not written correctly"):
        connect_message_queue("fetcher2processor", f"redis+sentinel://{place}")
