"""A page of another site, in the browser of an admin, changes nothing and reads nothing."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.attack.browsing import LoginWay, browser, logged_in, lured, rebound
from tests.attack.canaries import MEMBERS_ONLY
from tests.attack.doors import PORTS, Who
from tests.attack.evil import NAME, evil_site, targets
from tests.attack.machines import ATTACKER, PASSWORDS, SECRET, Machines
from tests.attack.state import State, at_rest, changes, state_of

Tried = Callable[[str], None]

pytestmark = [pytest.mark.attack, pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def before(machines: Machines) -> State:
    """Give the state of the cluster before any attack."""
    return at_rest(lambda: state_of(machines))


@pytest.fixture(autouse=True)
def _unchanged(machines: Machines, before: State) -> Iterator[None]:
    """Find whatever an attack changed."""
    yield
    assert changes(before, state_of(machines)) == []


@pytest.fixture(scope="module")
def chromium(machines: Machines) -> Iterator[Browser]:
    """Run a browser on a machine of the cluster's network."""
    network = machines.network
    with browser(network.address(ATTACKER), network.address("webui")) as running:
        yield running


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
