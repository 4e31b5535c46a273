"""Where something may listen."""

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import Listener, check_listening, is_loopback

LISTENER = Listener("the pages", "--host", "change everything", "--need-auth with --username")


HERE = ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("host", HERE)
def test_on_loopback_nothing_is_asked_for(host: str) -> None:
    assert is_loopback(host)
    check_listening(LISTENER, host, guarded=False)


OPEN = ["0.0.0.0", "::", "", "10.0.0.1", "crawl.example.org", "127.1"]  # noqa: S104 - not bound
OPEN += ["localhost.example.org", "127.0.0.1.example.org", "::ffff:10.0.0.1", "2130706433"]


@pytest.mark.parametrize("host", OPEN)
def test_elsewhere_it_takes_a_guard_or_a_word(host: str) -> None:
    check_listening(LISTENER, host, guarded=True)
    check_listening(LISTENER, host, guarded=False, insecure=True)
    with pytest.raises(ConfigError) as refused:
        check_listening(LISTENER, host, guarded=False)
    for told in ("--host", host, "change everything", "--need-auth", "127.0.0.1", "--insecure"):
        assert told in str(refused.value)
