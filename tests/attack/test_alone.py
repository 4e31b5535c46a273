"""Nothing that `up` runs answers on the network, and others on its machine may do what is said."""

from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
import redis
from kazoo.client import KazooClient

from pyspider_zk.secret_files import without_password
from tests.attack import rpc, stores, web
from tests.attack.alone import MACHINE, NEIGHBOUR, Alone, alone
from tests.attack.browsing import NAME, Evil, browser, evil_site, logged_in, lured, rebound, targets
from tests.attack.doors import CHANGING, PORTS, ROUTES
from tests.attack.scan import ALL_PORTS, open_ports
from tests.attack.state import LOCKED, at_rest, changes

Tried = Callable[[str], None]

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def machine(_permitted: None) -> Iterator[Alone]:
    """Run a cluster on one machine, with the defaults."""
    with alone() as started:
        yield started


@pytest.fixture(scope="module")
def _rested(machine: Alone) -> None:
    at_rest(machine.state)


@pytest.fixture
def unchanged(machine: Alone, _rested: None) -> Iterator[None]:
    """Find whatever an attack changed."""
    before = machine.state()
    yield
    assert changes(before, machine.state()) == []


UNCHANGED = pytest.mark.usefixtures("unchanged")


@UNCHANGED
def test_nothing_answers_on_the_network(machine: Alone, tried: Tried) -> None:
    with machine.network.entered(NEIGHBOUR):
        assert open_ports(machine.network.address(MACHINE)) == set()
    tried(f"{len(ALL_PORTS)} ports from the network")


@UNCHANGED
def test_on_the_machine_the_documented_ports_answer_and_no_others(
    machine: Alone, tried: Tried
) -> None:
    assert open_ports("127.0.0.1") == machine.ports()
    assert open_ports("::1") == set()
    tried(f"2 times {len(ALL_PORTS)} ports on the machine, {len(machine.ports())} open")


@UNCHANGED
def test_no_function_of_xml_rpc_opens_without_the_secret(machine: Alone, tried: Tried) -> None:
    schedulers = machine.schedulers()
    names = rpc.functions(schedulers[0], machine.secret)
    for address in schedulers:
        assert list(rpc.attack(address, names, [machine.secret])) == []
    tried(f"{len(names)} functions of XML-RPC at {len(schedulers)} schedulers")


@pytest.mark.usefixtures("_rested")
def test_who_is_not_logged_in_changes_no_locked_project(machine: Alone, tried: Tried) -> None:
    before = machine.state()
    routes = [route for route in ROUTES if web.names_a_project(route)]
    for method in sorted(CHANGING):
        for route in routes:
            body, headers = web.body_of(route, method, LOCKED)
            answer = web.ask(machine.webui, method, web.filled(route, LOCKED), body, headers)
            assert list(web.told(f"{method} {route}", answer.text, [machine.secret])) == []
    told = [each for each in changes(before, machine.state()) if "/events" not in each]
    assert (
        told == []
    )  # that it was refused is told in an event, for whoever is here may do the rest
    tried(f"{len(CHANGING) * len(routes)} requests about a locked project")


@UNCHANGED
def test_zookeeper_and_redis_let_in_nobody_without_a_login(machine: Alone, tried: Tried) -> None:
    paths = [name.removeprefix("znode ") for name in machine.state() if "znode" in name]
    client = KazooClient(machine.settings.hosts, timeout=30)
    client.start(60)
    try:
        assert list(stores.attack_znodes(client, paths, machine.secrets)) == []
    finally:
        client.stop()
        client.close()
    url = without_password(machine.running.message_queue)
    with closing(redis.Redis.from_url(url)) as store, pytest.raises(redis.AuthenticationError):
        store.dbsize()
    tried(f"{len(paths)} znodes")


@UNCHANGED
def test_what_is_not_the_secret_opens_no_function(machine: Alone) -> None:
    assert list(rpc.guess(machine.schedulers()[0], [machine.secret], {})) == []


@UNCHANGED
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("node", [NEIGHBOUR, MACHINE])
def test_a_page_of_another_site_does_nothing(machine: Alone, node: str, tried: Tried) -> None:
    """In the browser of who runs `up` and looks at the web UI, which wants no login there."""
    sent = targets(machine.webui, machine.schedulers())
    address = machine.network.address(NEIGHBOUR) if node == NEIGHBOUR else "127.0.0.1"
    name = NAME if node == NEIGHBOUR else address
    with (
        evil_site(machine.network.entered(node), address, name, sent) as site,
        browser(machine.network.address(NEIGHBOUR), "127.0.0.1") as chromium,
        logged_in(chromium, machine.webui, None, "", "") as context,
    ):
        lured(context, site)
        posts = [post for post in sent["posts"] if post["method"] == "POST"]
        calls = [post for post in posts if "RPC2" in post["url"]]
        told = rebound(context, PORTS["web UI"], [post for post in posts if post not in calls])
        for call in calls:
            told += rebound(context, urlsplit(call["url"]).port or 0, [call])
    assert len(site.loot) == 1
    assert site.stolen([machine.secret]) == []
    assert Evil("", told).stolen([machine.secret]) == []
    tried(", ".join(f"{len(found)} {kind}" for kind, found in sent.items()))


@UNCHANGED
def test_another_user_reads_no_file(machine: Alone) -> None:
    assert machine.readable() == []
