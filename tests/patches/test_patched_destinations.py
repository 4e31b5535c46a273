"""Where a fetch may not lead: forbidden networks, and private addresses behind public ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.patches.conftest import serving
from tests.patches.test_patched_redirects import RedirectingSite


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def local(asked: list[str]) -> Iterator[str]:
    class LocalSite(RedirectingSite):
        def do_GET(self) -> None:  # noqa: N802 - the base class's
            asked.append(self.path)
            super().do_GET()

    with serving(LocalSite) as url:
        yield url


def fetched(url: str, forbidden: tuple[str, ...], **options: Any) -> Any:
    from pyspider.fetcher import Fetcher

    class ConfinedFetcher(Fetcher):  # type: ignore[misc]
        forbidden_networks = forbidden

    fetcher = ConfinedFetcher(None, None, async_mode=False)
    try:
        return fetcher.fetch({"project": "p", "taskid": "t", "url": url, "fetch": options})
    finally:
        fetcher.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_forbidden_network_is_not_asked_under_any_name(
    local: str, asked: list[str], host: str
) -> None:
    url = local.replace("127.0.0.1", host)
    page = fetched(url, ("127.0.0.0/8", "::1/128"))
    assert page["status_code"] == 599
    assert "forbidden_networks" in page["error"]
    assert asked == []


def test_a_redirect_into_a_forbidden_network_is_not_followed(local: str, asked: list[str]) -> None:
    target = local.replace("127.0.0.1", "127.0.0.2")
    page = fetched(f"{local}/?to={target}/", ("127.0.0.2/32",))
    assert "127.0.0.2 is in forbidden_networks" in page["error"]
    assert len(asked) == 1


def test_an_open_connection_is_no_way_round(local: str, asked: list[str]) -> None:
    from pyspider.fetcher import Fetcher
    from pyspider.libs.destinations import Destinations

    fetcher = Fetcher(None, None, async_mode=False)
    task = {"project": "p", "taskid": "t", "url": local}
    assert fetcher.fetch(task)["status_code"] == 200
    fetcher.http_client.destinations = Destinations(["127.0.0.0/8"])
    assert "forbidden_networks" in fetcher.fetch(task)["error"]
    fetcher.close()
    assert len(asked) == 1


def test_robots_txt_is_fetched_under_the_same_rules(local: str, asked: list[str]) -> None:
    fetched(local, ("127.0.0.0/8",), robots_txt=True)
    assert asked == []


def test_a_site_of_ones_own_may_lead_to_another(local: str) -> None:
    assert fetched(f"{local}/?to={local}/", ())["status_code"] == 200


@pytest.mark.parametrize(
    ("led_by", "address", "is_refused"),
    [
        ("", "127.0.0.1", False),
        ("", "10.1.2.3", False),
        ("8.8.8.8", "1.1.1.1", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("8.8.8.8", "127.0.0.1", True),
        ("8.8.8.8", "10.1.2.3", True),
        ("8.8.8.8", "169.254.169.254", True),
        ("8.8.8.8", "0.0.0.0", True),  # noqa: S104 - no one listens
        ("8.8.8.8", "100.64.0.1", True),
        ("2606:4700::1", "::1", True),
        ("2606:4700::1", "fd00::1", True),
        ("2606:4700::1", "fe80::1%eth0", True),
        ("2606:4700::1", "::ffff:10.0.0.1", True),
        ("2606:4700::1", "64:ff9b::a00:1", True),
    ],
)
def test_what_is_public_may_not_lead_to_what_is_not(
    led_by: str, address: str, *, is_refused: bool
) -> None:
    from pyspider.libs.destinations import Destinations

    assert bool(Destinations([]).refusal(address, led_by)) == is_refused
