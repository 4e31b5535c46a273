"""Redis with users, passwords and TLS: every way in that the product has."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from pyspider_zk.errors import Refused
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.connect import connect
from tests.queues.ways_in import stock, works
from tests.support.secured_servers import Authority, authority, tls_redis

USER = "crawl@er"
PASSWORD = "p@ss:w/rd?#%41 "  # noqa: S105 - of a server that lives for a test
WRONG = PASSWORD.upper()
RULES = ["~*", "+@all", "-@admin", "-@dangerous"]
"""What docs/how-to/secure.md says that the user needs."""


@pytest.fixture
def guarded(own_redis: RedisServer) -> str:
    """Give where a Redis is that lets in one user with a name, and whoever knows a password."""
    with redis.Redis.from_url(own_redis.url) as client:
        client.execute_command("ACL", "SETUSER", USER, "on", f">{PASSWORD}", *RULES)
        client.config_set("requirepass", PASSWORD)
    return own_redis.address


def url(address: str, username: str = USER, password: str = PASSWORD) -> str:
    return f"redis://{quote(username, safe='')}:{quote(password, safe='')}@{address}/0"


@pytest.mark.redis
def test_a_user_with_a_name_gets_in_everywhere(guarded: str) -> None:
    assert works(url(guarded))


@pytest.mark.redis
def test_a_password_alone_gets_in_everywhere(guarded: str) -> None:
    assert works(url(guarded, username=""))


@pytest.mark.redis
@pytest.mark.parametrize(
    ("username", "password"), [(USER, WRONG), ("nobody", PASSWORD), ("", WRONG), ("", "")]
)
def test_who_is_not_let_in_is_told_so_and_how(guarded: str, username: str, password: str) -> None:
    where = url(guarded, username, password)
    with closing(connect(where, 0, 8)) as queues, pytest.raises(Refused) as refused:
        queues.inbox.lengths()
    with pytest.raises(Refused) as refused_too:
        stock(where)[0]._inner.qsize()
    for told in map(str, (refused.value, refused_too.value)):
        assert guarded in told
        assert "AMQP_URL" in told
        assert WRONG not in told
        assert PASSWORD not in told


@pytest.mark.redis
def test_a_user_who_may_not_do_it_is_told_so(guarded: str, own_redis: RedisServer) -> None:
    with redis.Redis.from_url(url(own_redis.address, username="")) as client:
        client.execute_command("ACL", "SETUSER", USER, "resetkeys", "~other:*")
    with closing(connect(url(guarded), 0, 8)) as queues, pytest.raises(Refused, match="crawl@er"):
        queues.inbox.lengths()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give certificates for localhost."""
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tls(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test
    certificates: Authority,
    tmp_path: Path,
) -> Iterator[str]:
    """Give where a Redis speaks TLS."""
    with tls_redis(tmp_path, certificates) as (_, address):
        yield address


@pytest.mark.redis
def test_tls_is_spoken_everywhere(tls: str, certificates: Authority) -> None:
    assert works(f"rediss://{tls}/0?ssl_ca_certs={certificates.ca}")


@pytest.mark.redis
@pytest.mark.parametrize("why", ["name", "authority", "unknown authority"])
def test_no_other_server_is_talked_to(
    tls: str, certificates: Authority, tmp_path: Path, why: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    where = {
        "name": f"{tls.replace('localhost', '127.0.0.1')}/0?ssl_ca_certs={certificates.ca}",
        "authority": f"{tls}/0?ssl_ca_certs={authority(other).ca}",
        "unknown authority": f"{tls}/0",
    }[why]
    with closing(connect(f"rediss://{where}", 0, 8)) as queues, pytest.raises(Refused, match="SSL"):
        queues.inbox.lengths()
    with pytest.raises(Refused, match="SSL"):
        stock(f"rediss://{where}")[0]._inner.qsize()
