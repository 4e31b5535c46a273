"""Who is on the network of a cluster on several machines, and no member, can do nothing to it.

Nor can a page of another site, in the browser of an admin.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import redis
from playwright.sync_api import Browser

from tests.attack import rpc, stores, web
from tests.attack.browsing import (
    NAME,
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
from tests.attack.scan import ALL_PORTS, open_ports, udp_ports
from tests.attack.state import MEMBERS_ONLY, State, at_rest, changes, znodes

Tried = Callable[[str], None]

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def before(machines: Machines) -> State:
    """Give the state of the cluster before any attack."""
    return at_rest(machines.state)


@pytest.fixture(autouse=True)
def _unchanged(machines: Machines, before: State) -> Iterator[None]:
    """Find whatever an attack changed."""
    yield
    assert changes(before, machines.state()) == []


@pytest.fixture(scope="module")
def routes(machines: Machines) -> list[str]:
    """Give the routes of the real web UI."""
    return machines.routes()


def test_each_machine_listens_where_the_documentation_says_and_nowhere_else(
    machines: Machines, tried: Tried
) -> None:
    with machines.network.entered(ATTACKER):
        found = {name: open_ports(machines.network.address(name)) for name in LISTENS}
    assert found == LISTENS
    told = {name: udp_ports(pid) for name, pid in machines.pids().items()}
    assert set(told) == set(LISTENS)
    assert not any(told.values()), told
    tried(f"{len(ALL_PORTS)} ports at each of {len(found)} machines")


def test_somebody_has_judged_every_route(routes: list[str]) -> None:
    assert web.unjudged(routes) == []
    assert len(routes) > 40


@pytest.mark.parametrize("who", [Who.NOBODY, Who.VIEWER, Who.OPERATOR])
def test_no_route_gives_more_than_a_role_may(
    machines: Machines, routes: list[str], who: Who, tried: Tried
) -> None:
    with machines.network.entered(ATTACKER):
        found = web.attack(machines.webui, routes, who, machines.authorization, machines.secrets)
        assert list(found) == []
    tried(f"{who.name.lower()}: {web.count(routes, who)} requests, {len(routes)} routes")


@pytest.mark.parametrize("who", [Who.NOBODY, Who.VIEWER, Who.OPERATOR])
def test_no_odd_request_gives_more_than_a_role_may(
    machines: Machines, who: Who, tried: Tried
) -> None:
    hidden = [*machines.secrets, *(MEMBERS_ONLY if who is Who.NOBODY else ())]
    with machines.network.entered(ATTACKER):
        assert list(web.attack_oddly(machines.webui, machines.authorization(who), hidden)) == []
    tried(f"{len(list(web.odd_requests()))} odd requests")


def test_no_function_of_xml_rpc_opens_without_the_secret(machines: Machines, tried: Tried) -> None:
    names = rpc.functions(machines.schedulers[0], SECRET)
    with machines.network.entered(ATTACKER):
        for address in machines.schedulers:
            assert list(rpc.attack(address, names, machines.secrets)) == []
    tried(f"{len(names)} functions of XML-RPC at {len(machines.schedulers)} schedulers")


def test_what_is_not_the_secret_opens_no_function(machines: Machines) -> None:
    logins = {who.name: machines.authorization(who) for who in Who if who}
    with machines.network.entered(ATTACKER):
        assert list(rpc.guess(machines.schedulers[0], machines.secrets, logins)) == []


def test_no_znode_opens_without_the_login(machines: Machines, tried: Tried) -> None:
    with machines.zookeeper_client(login=True) as client:
        paths = [path for path, _ in znodes(client, machines.settings.root)]
        own = client.get_acls(machines.settings.root)[0]
    hidden = [*machines.secrets, *(each.id.id for each in own)]
    with (
        machines.network.entered(ATTACKER),
        machines.zookeeper_client(login=False) as stranger,
    ):
        assert list(stores.attack_znodes(stranger, paths, hidden)) == []
        stranger.add_auth("digest", "crawl:guessed")
        assert list(stores.attack_znodes(stranger, paths[:5], hidden)) == []
    tried(f"{len(paths)} znodes")


def test_zookeeper_talks_to_nobody_without_a_certificate(machines: Machines) -> None:
    context = ssl.create_default_context(cafile=machines.folder / "ca.pem")
    with (
        machines.network.entered(ATTACKER),
        pytest.raises(ssl.SSLError, match=r"(?i)certificate"),
    ):
        _heard(machines.zookeeper, context)


def _heard(address: str, context: ssl.SSLContext) -> bytes:
    """Return the first byte that a server of TLS says."""
    host, _, port = address.partition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as link,
        context.wrap_socket(link, server_hostname=host) as wrapped,
    ):
        return wrapped.recv(1)  # some servers refuse a certificate only now


def test_redis_does_nothing_without_the_login(machines: Machines, tried: Tried) -> None:
    with closing(machines.redis_client(login=True)) as member:
        known, key = stores.commands(member), next(member.scan_iter()).decode()
    with (
        machines.network.entered(ATTACKER),
        closing(machines.redis_client(login=False)) as stranger,
    ):
        assert list(stores.attack_redis(stranger, known, key)) == []
    tried(f"{len(known)} commands of Redis")


def test_redis_talks_to_nobody_without_a_certificate(machines: Machines) -> None:
    with (
        machines.network.entered(ATTACKER),
        closing(machines.redis_client(login=False, papers=False)) as stranger,
        pytest.raises(redis.ConnectionError),
    ):
        stranger.ping()


@pytest.fixture(scope="module")
def chromium(machines: Machines) -> Iterator[Browser]:
    """Run a browser on a machine of the cluster's network."""
    network = machines.network
    with browser(network.address(ATTACKER), network.address("webui")) as running:
        yield running


@pytest.mark.browser
@pytest.mark.parametrize(
    ("node", "login"),
    [
        ("webui", LoginWay.SESSION),
        pytest.param("webui", LoginWay.PASSWORD, marks=pytest.mark.slow),
        pytest.param(ATTACKER, LoginWay.SESSION, marks=pytest.mark.slow),
        pytest.param(ATTACKER, LoginWay.PASSWORD, marks=pytest.mark.slow),
    ],
)
def test_a_page_of_another_site_does_nothing(
    machines: Machines, chromium: Browser, node: str, login: LoginWay, tried: Tried
) -> None:
    """On the web UI's own machine, at another port, the site is the same to cookies."""
    address = machines.network.address(node)
    name = NAME if node == ATTACKER else address
    sent = targets(machines.webui, machines.schedulers)
    there = machines.network.entered(node)
    admin = logged_in(chromium, machines.webui, login, "admin", PASSWORDS[Who.ADMIN])
    with evil_site(there, address, name, sent) as site, admin as context:
        lured(context, site)
    assert len(site.loot) == 1
    assert site.stolen(machines.secrets) == []
    tried(", ".join(f"{len(found)} {kind}" for kind, found in sent.items()))


@pytest.mark.browser
@pytest.mark.parametrize("login", LoginWay)
def test_a_name_that_leads_here_by_now_opens_nothing(
    machines: Machines, chromium: Browser, login: LoginWay
) -> None:
    posts = [post for post in targets(machines.webui, [])["posts"] if post["method"] == "POST"]
    admin = logged_in(chromium, machines.webui, login, "admin", PASSWORDS[Who.ADMIN])
    with admin as context:
        told = "\n".join(rebound(context, PORTS["web UI"], posts))
    assert "does not know itself by this name" in told
    assert [each for each in (*MEMBERS_ONLY, *machines.secrets) if each in told] == []


@pytest.mark.browser
def test_a_browser_that_knows_the_secret_calls_no_scheduler(
    machines: Machines, chromium: Browser
) -> None:
    address = machines.network.address(ATTACKER)
    sent = {**targets(machines.webui, machines.schedulers), "reads": [], "refreshes": []}
    sent["posts"] = [post for post in sent["posts"] if post["type"] == "text/xml"]
    sent["forms"] = [form for form in sent["forms"] if "RPC2" in form["url"]]
    there = machines.network.entered(ATTACKER)
    known = chromium.new_context(http_credentials={"username": "ann", "password": SECRET})
    with evil_site(there, address, NAME, sent) as site, known as context:
        lured(context, site)
    assert len(sent["posts"]) == len(sent["forms"]) == len(machines.schedulers)
    assert site.stolen(machines.secrets) == []
