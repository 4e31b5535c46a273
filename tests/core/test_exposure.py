"""What others can reach is guarded, or was wanted open."""

import pytest

from pyspider_zk.core.exposure import check_exposure, is_loopback, is_open
from pyspider_zk.errors import ConfigError

HERE = ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LocalHost", "::ffff:127.0.0.1"]
THERE = ["", "0.0.0.0", "::", "10.0.0.1", "box", "localhost.example.org", "127.0.0.1.example.org"]  # noqa: S104 - asked about
THERE += ["::ffff:10.0.0.1", "127.1", "2130706433"]


@pytest.mark.parametrize("host", HERE)
def test_only_this_machine_reaches_loopback(host: str) -> None:
    assert is_loopback(host)
    check_exposure("x", host, False, "do all", "guard it")


@pytest.mark.parametrize("host", THERE)
def test_what_others_may_reach_must_be_guarded_or_wanted_open(host: str) -> None:
    assert is_open(host, guarded=False)
    with pytest.raises(ConfigError, match=r"(?s)x: .*do all.*guard it.*127\.0\.0\.1.*--insecure"):
        check_exposure("x", host, False, "do all", "guard it")
    check_exposure("x", host, True, "do all", "guard it")
    check_exposure("x", host, False, "do all", "guard it", insecure=True)
