"""Each attack reports a door that was opened on purpose."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.attack import rpc, stores, web
from tests.attack.browsing import (
    NAME,
    Evil,
    LoginWay,
    browser,
    evil_site,
    logged_in,
    lured,
    rebound,
    targets,
)
from tests.attack.doors import LISTENS, PORTS, Who
from tests.attack.machines import ATTACKER, PASSWORDS, SECRET, Machines
from tests.attack.scan import open_ports, udp_ports
from tests.attack.state import LOCKED, SCRIPT_CANARY, at_rest, changes, znodes
from tests.attack.web import ATTACKED

PRELOAD = Path(__file__).parent / "preload"

pytestmark = [pytest.mark.attack, pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def opened(_permitted: None, tmp_path: Path) -> Iterator[Machines]:
    """Run a cluster with every door open."""
    with Machines(tmp_path / "opened", PRELOAD, guarded=False) as started:
        yield started


def test_each_attack_reports_an_open_door(opened: Machines) -> None:
    """One after the other on one cluster, for they leave little of it."""
    at_rest(opened.state)
    _port_is_reported(opened)
    _route_is_reported(opened)
    _page_is_reported(opened)
    _function_is_reported(opened)
    _znode_is_reported(opened)
    _command_is_reported(opened)


def _port_is_reported(opened: Machines) -> None:
    address = opened.network.address("processor")
    with opened.network.entered("processor"):
        listener = socket.create_server((address, 0))
        datagrams = socket.socket(type=socket.SOCK_DGRAM)
        datagrams.bind((address, 0))
    with datagrams:
        assert udp_ports(opened.pids()["processor"]) == {datagrams.getsockname()[1]}
    with listener, opened.network.entered(ATTACKER):
        assert open_ports(address) - LISTENS["processor"] == {listener.getsockname()[1]}


def _route_is_reported(opened: Machines) -> None:
    """Whoever may look may edit, and nobody must log in."""

    def found(who: Who, route: str, secrets: list[str]) -> list[str]:
        return list(web.attack(opened.webui, [route], who, opened.authorization, secrets))

    assert found(Who.NOBODY, "/debug/<project>/get", [])[:2] == [
        "COPY /debug/<project>/get as nobody: 405, though it takes admin",
        "DELETE /debug/<project>/get as nobody: 405, though it takes admin",
    ]
    read = [each for each in found(Who.NOBODY, "/debug/<project>/get", []) if "tells" in each]
    assert read == [f"GET /debug/<project>/get as nobody: tells {SCRIPT_CANARY!r}"]
    for who in (Who.VIEWER, Who.OPERATOR):
        what = f"POST /debug/<project>/save as {who.name.lower()}: 200, though it takes admin"
        assert what in found(who, "/debug/<project>/save", [])
    before = opened.state()
    assert list(web.attack_oddly(opened.webui, opened.authorization(Who.VIEWER), [LOCKED])) != []
    assert any("project row projectdb kept" in each for each in changes(before, opened.state()))


def _page_is_reported(opened: Machines) -> None:
    """Other sites and other names are let in."""
    before, network = opened.state(), opened.network
    sent = targets(opened.webui, opened.schedulers)
    address = network.address(ATTACKER)
    posts = [post for post in sent["posts"] if post["url"].endswith("/save")]
    with (
        evil_site(network.entered(ATTACKER), address, NAME, sent) as site,
        browser(address, network.address("webui")) as chromium,
        logged_in(
            chromium, opened.webui, LoginWay.PASSWORD, "admin", PASSWORDS[Who.ADMIN]
        ) as context,
    ):
        lured(context, site)
        changed = changes(before, opened.state())
        read = rebound(context, PORTS["web UI"], posts * 2)
    for part in ("project row projectdb kept", "/events/", "/jobs/"):
        assert any(part in each for each in changed), changed
    assert Evil("", read).stolen([ATTACKED]) == [ATTACKED]  # which the first saved


def _function_is_reported(opened: Machines) -> None:
    address = opened.schedulers[0]
    assert rpc.functions(address, SECRET)
    found = list(rpc.attack(address, ["list_projects"], ["locked"]))
    assert any("list_projects with no login: 200" in each for each in found)
    assert any("tells 'locked'" in each for each in found)
    guessed = list(rpc.guess(address, [], {}))
    assert any("an empty secret: 200" in each for each in guessed)


def _znode_is_reported(opened: Machines) -> None:
    root = opened.settings.root
    with opened.zookeeper_client(login=False) as stranger:
        paths = [path for path, _ in znodes(stranger, root)]
        found = list(stores.attack_znodes(stranger, [path for path in paths if "ids" in path], []))
        for what in ("read", "list", "write", "create below", "set the ACL", "delete"):
            assert any(each.endswith(f": may {what}") for each in found), what
        held = list(stores.attack_znodes(stranger, [f"{root}/meta"], ["world"]))
        assert any("its ACL: tells 'world'" in each for each in held)


def _command_is_reported(opened: Machines) -> None:
    before = opened.state()
    with closing(opened.redis_client(login=False)) as stranger:
        found = list(stores.attack_redis(stranger, {"dbsize": 1, "get": 2, "set": 3}, LOCKED))
        assert [each.partition(" for")[0] for each in found] == [
            "Redis carries out dbsize",
            "Redis carries out get",
            "Redis carries out set",
        ]
    assert any(each.startswith(f"key {LOCKED}: absent") for each in changes(before, opened.state()))
