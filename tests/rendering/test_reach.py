"""Where a page may connect to."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyspider_zk.rendering.gate import Reach, addresses

CLOUD = ("169.254.0.0/16",)


@pytest.mark.parametrize(
    ("asked", "port", "address", "to", "may"),
    [
        (["93.184.215.14"], 80, "93.184.215.14", 80, True),
        (["93.184.215.14"], 80, "1.1.1.1", 8443, True),
        (["93.184.215.14"], 80, "127.0.0.1", 80, False),
        (["93.184.215.14"], 6379, "10.0.0.5", 6379, False),
        (["93.184.215.14", "127.0.0.1"], 80, "127.0.0.1", 80, False),
        (["127.0.0.1"], 8000, "127.0.0.1", 8000, True),
        (["127.0.0.1"], 8000, "127.0.0.1", 6379, False),
        (["127.0.0.1"], 8000, "127.0.0.2", 8000, False),
        (["127.0.0.1"], 8000, "0.0.0.0", 6379, False),  # noqa: S104 - asked about
        (["127.0.0.1"], 8000, "::ffff:127.0.0.1", 6379, False),
        (["127.0.0.1", "::1"], 8000, "::1", 8000, True),
        (["127.0.0.1", "::1"], 8000, "::1", 2181, False),
        (["10.0.0.5"], 80, "10.0.0.5", 443, True),
        (["10.0.0.5"], 8080, "10.0.0.5", 443, False),
        (["10.0.0.5"], 80, "192.168.7.1", 5432, True),
        (["10.0.0.5"], 80, "192.168.8.1", 80, False),
        (["169.254.169.254"], 80, "169.254.169.254", 80, False),
        (["1.1.1.1"], 80, "169.254.169.254", 80, False),
    ],
)
def test_only_public_addresses_and_what_the_script_asked_for_are_reached(
    asked: list[str], port: int, address: str, to: int, may: bool
) -> None:
    reach = Reach(CLOUD, ["192.168.7.0/24"], asked, port)
    refusal = reach.refusal(address, to)
    assert (refusal == "") is may, refusal


def test_a_refusal_names_address_port_and_reason() -> None:
    reach = Reach(CLOUD, [], ["1.1.1.1"], 80)
    assert reach.refusal("10.0.0.5", 6379) == (
        "10.0.0.5 port 6379 is not public, and not what the script asked for"
    )
    assert reach.refusal("169.254.0.1", 80) == "169.254.0.1 is in forbidden_networks"


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example"])
def test_a_host_that_cannot_be_a_name_has_no_address(host: str) -> None:
    with ThreadPoolExecutor(1) as resolvers, pytest.raises(OSError, match="label"):
        asyncio.run(addresses(host, 80, resolvers))


def test_a_page_that_is_closed_asks_for_no_more_names() -> None:
    resolvers = ThreadPoolExecutor(1)
    resolvers.shutdown()
    with pytest.raises(OSError, match="shutdown"):
        asyncio.run(addresses("site.example", 80, resolvers))
