"""What a process tells about itself."""

import os

import pytest

from pyspider_zk.components.identity import is_out_of_reach, member_record, reachable
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable

HERE = Settings(hosts="127.0.0.1:2181")


@pytest.mark.parametrize("bound", ["", "0.0.0.0", "::"])  # noqa: S104 - asked about, not bound
def test_what_is_bound_everywhere_is_reached_where_zookeeper_is_reached_from(bound: str) -> None:
    assert reachable(HERE, 5000, bound) == "127.0.0.1:5000"


def test_what_is_bound_to_one_address_is_reached_there() -> None:
    assert reachable(HERE, 5000, "10.1.2.3") == "10.1.2.3:5000"


def test_what_the_settings_advertise_comes_first() -> None:
    settings = Settings(hosts="nowhere.invalid", advertise="crawler.example")
    assert reachable(settings, 5000) == "crawler.example:5000"


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert reachable(Settings(advertise="fd00::1"), 5000) == "[fd00::1]:5000"


def test_a_zookeeper_without_an_address_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        reachable(Settings(hosts="nowhere.invalid:2181"), 5000)


def test_who_listens_on_loopback_says_so_wherever_zookeeper_is() -> None:
    record = member_record(Settings(hosts="192.0.2.1:2181"), 23333, "127.0.0.1")
    assert record.address == "127.0.0.1:23333"


def test_who_listens_on_loopback_beside_a_zookeeper_elsewhere_is_out_of_reach() -> None:
    elsewhere = Settings(hosts="192.0.2.1:2181")
    try:
        reachable(elsewhere, 1)
    except Unavailable:
        pytest.skip("this machine has no route to anywhere")
    assert is_out_of_reach(elsewhere, "127.0.0.1")
    assert not is_out_of_reach(elsewhere, "192.0.2.7")
    assert not is_out_of_reach(Settings(hosts="127.0.0.1"), "127.0.0.1")
    assert not is_out_of_reach(Settings(hosts="192.0.2.1", advertise="here"), "127.0.0.1")


def test_a_member_tells_its_process_and_its_name() -> None:
    record = member_record(Settings(hosts="127.0.0.1", name="blue"), 23333, "127.0.0.1")
    assert (record.address, record.pid, record.name) == ("127.0.0.1:23333", os.getpid(), "blue")


def test_a_member_that_speaks_tls_says_so_in_its_address() -> None:
    settings = Settings(
        advertise="crawl1.example", xmlrpc_tls_certificate="c.pem", xmlrpc_tls_key="k.pem"
    )
    assert member_record(settings, 23333, "0.0.0.0").address == "https://crawl1.example:23333"  # noqa: S104
