"""The URLs of a message queue in Redis."""

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.redis_url import HostPort, RedisAddress, Sentinels, Tls, parse

H = HostPort("h", 6379)
S = HostPort("h", 26379)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("redis://h", RedisAddress(H, 0, None, None)),
        ("redis://:a%2Fb%40c@h:1/2", RedisAddress(HostPort("h", 1), 2, None, "a/b@c")),
        ("redis://cr%20awl:p%25@h", RedisAddress(H, 0, "cr awl", "p%")),
        ("redis://:50%off@h", RedisAddress(H, 0, None, "50%off")),
        ("redis://h/1?ignored=x", RedisAddress(H, 1, None, None)),
        ("rediss://u:p@h", RedisAddress(H, 0, "u", "p", Tls())),
        ("redis+sentinel://h/s", RedisAddress(Sentinels((S,), "s"), 0, None, None)),
        (
            "redis+sentinel://cr%20awl:p%25@h,[::1]:1,10.0.0.1:65535/my.s-1_A/2?sentinel_password=a%2Fb+",
            RedisAddress(
                Sentinels(
                    (S, HostPort("::1", 1), HostPort("10.0.0.1", 65535)), "my.s-1_A", None, "a/b+"
                ),
                2,
                "cr awl",
                "p%",
            ),
        ),
        (
            f"rediss+sentinel://h/s?sentinel_username=u&sentinel_password=p&ssl_ca_certs={__file__}",
            RedisAddress(Sentinels((S,), "s", "u", "p"), 0, None, None, Tls(__file__)),
        ),
    ],
)
def test_a_url_is_read(given: str, target: RedisAddress) -> None:
    assert parse(given) == target


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("rediss://:HIDDEN@h?ssl_ca_certs=/none", "ssl_ca_certs: there is no file '/none'"),
        ("rediss://:HIDDEN@h?ssl_cert_reqs=none", "no option 'ssl_cert_reqs', known are"),
        (f"redis://:HIDDEN@h?ssl_ca_certs={__file__}", "TLS needs rediss://"),
        (f"rediss://:HIDDEN@h?ssl_certfile={__file__}", "give both or none"),
        ("redis://:HID/DEN@h/0", "%-encoded"),
        ("redis://:HIDDEN@h:1,i:1/0", "sentinels are named with redis+sentinel://"),
        ("redis+sentinel://:HIDDEN@h:1", "the name of the master is missing"),
        ("redis+sentinel://:HIDDEN@h:1/", "the name of the master is missing"),
        ("redis+sentinel://:HIDDEN@/s", "the hosts of the sentinels are missing"),
        ("redis+sentinel://", "the name of the master is missing"),
        ("redis+sentinel://:HIDDEN@h:1,,i:1/s", "sentinel 2 is not written correctly"),
        ("redis+sentinel://:HIDDEN@h:1,i:port/s", "sentinel 2 is not written correctly"),
        ("redis+sentinel://:HIDDEN@h:1,[::1/s", "sentinel 2 is not written correctly"),
        ("redis+sentinel://:HIDDEN@h:65536/s", "the port of sentinel 1 must be from 1 to 65535"),
        ("redis+sentinel://:HIDDEN@h:0/s", "the port of sentinel 1 must be from 1 to 65535"),
        (
            "redis+sentinel://:HIDDEN@h/s/zero",
            "the database after the name of the master is not a number",
        ),
        (
            "redis+sentinel://:HIDDEN@h/s/\u0665",
            "the database after the name of the master is not a number",
        ),
        ("redis+sentinel://:HID/DEN@h/s", "%-encoded"),
        ("redis+sentinel://:HID?DEN@h/s", "%-encoded"),
        ("redis+sentinel://u/s:HIDDEN@h/s", "other characters than"),
        ("redis+sentinel://h/s?sentinel_password=HID@DEN", "options must be %-encoded, too"),
        (
            "redis+sentinel://:HIDDEN@h/s?password=HIDDEN",
            "there is no option 'password', known are",
        ),
        (
            f"redis+sentinel://:HIDDEN@h/s?ssl_ca_certs={__file__}",
            "TLS needs rediss+sentinel://",
        ),
        ("rediss+sentinel://h/s?ssl_ca_certs=/none", "ssl_ca_certs: there is no file '/none'"),
        (f"rediss+sentinel://h/s?ssl_certfile={__file__}", "give both or none"),
    ],
)
def test_a_url_that_cannot_work_says_why(given: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        connect(given, 0, 8)
    assert told in str(refused.value)
    assert "HIDDEN" not in str(refused.value)


def test_an_address_shows_no_password() -> None:
    url = "redis+sentinel://u:HIDDEN@h/s?sentinel_username=u&sentinel_password=HIDDEN"
    assert "HIDDEN" not in repr(parse(url))
    assert parse(url).passwords == ("HIDDEN", "HIDDEN")
