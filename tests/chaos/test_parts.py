"""What a run is made of: the site, who asks for batches, who asks all the time, exit codes."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from xmlrpc.server import SimpleXMLRPCServer

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import MissingService
from tests.chaos.__main__ import main
from tests.chaos.batches import NobodyAnswersError, Starter
from tests.chaos.foreign_client import keep_asking
from tests.chaos.site import FAILING, LINKED, failing, links, projects
from tests.support import network
from tests.support.network import MISSING, NOT_PERMITTED, NotPermitted

PAGES = 72


@pytest.mark.parametrize("graph", ["g0", "g1", "g2", "g3"])
def test_each_page_has_one_referrer_that_can_find_it(graph: str) -> None:
    """The other one is a page that it found itself."""
    ahead = Counter(
        link for page in range(PAGES) for link in links(graph, page, PAGES) if link > page
    )

    assert ahead == Counter(range(1, PAGES))


@pytest.mark.parametrize("graph", ["g0", LINKED])
def test_each_page_links_to_one_that_others_know_too(graph: str) -> None:
    for page in range(PAGES):
        children = {2 * page + 1, 2 * page + 2}
        assert len(set(links(graph, page, PAGES)) - children) <= 1

    referrers = Counter(link for page in range(PAGES) for link in links(graph, page, PAGES))
    assert any(count > 1 for count in referrers.values())


def test_all_pages_of_all_graphs_can_be_reached() -> None:
    for graph in {project.graph for project in projects()}:
        known = {0}
        while found := {link for page in known for link in links(graph, page, PAGES)} - known:
            known |= found
        assert known == set(range(PAGES))


def test_some_projects_fail_and_are_no_part_of_what_is_wanted() -> None:
    assert {project.graph for project in failing()} == {FAILING}
    assert not {project.name for project in failing()} & {project.name for project in projects()}
    assert "raise" in failing()[0].script("http://site")


BATCH = {"chaos-0": ["started0"]}


@pytest.fixture
def starter() -> Starter:
    """Give one that knows of no scheduler, and has no ZooKeeper to hear of any."""
    return Starter(Settings(hosts="127.0.0.1:1"), BATCH)


def test_an_ask_that_nobody_answers_is_given_up(starter: Starter) -> None:
    with pytest.raises(NobodyAnswersError, match="nobody answered get_batch"):
        starter._call("get_batch", "chaos-0", limit=0.1)


def test_a_batch_that_nobody_knows_of_is_wanted_all_the_same(starter: Starter) -> None:
    starter._asked, starter._deserted = BATCH, True
    found = starter.look()["chaos-0"]

    assert found["projects"] == ["started0"]
    assert "nobody answered" in found["state"]


def test_a_scheduler_is_asked_again_and_again(eventually: Callable[..., None]) -> None:
    asked: list[tuple[int, int]] = []
    quiet = threading.Event()
    with SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False) as server:
        server.register_function(lambda *about: asked.append(about) or True, "list_events")
        threading.Thread(target=server.serve_forever).start()
        thread = keep_asking(f"127.0.0.1:{server.server_address[1]}", quiet)
        eventually(lambda: len(asked) >= 1)
        quiet.set()
        thread.join()
        server.shutdown()

    assert asked[0] == (0, 1)


def test_a_scheduler_that_is_gone_ends_nothing() -> None:
    quiet = threading.Event()
    thread = keep_asking("127.0.0.1:1", quiet)
    quiet.wait(1)
    quiet.set()
    thread.join()


def exit_code(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """Return what a run ends with that fails so."""

    def failing(_: object) -> int:
        raise error

    monkeypatch.setattr(sys, "argv", ["chaos"])
    monkeypatch.setattr("tests.support.network.check_permission", lambda: None)
    monkeypatch.setattr("tests.chaos.__main__.run", failing)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return main()


def test_not_permitted_and_missing_have_codes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {NOT_PERMITTED, MISSING}

    assert exit_code(monkeypatch, NotPermitted("no")) == NOT_PERMITTED
    assert exit_code(monkeypatch, MissingService("no")) == MISSING
    assert codes.isdisjoint({0, 1, 2})  # all well, a promise broken, a mistyped option


def test_a_mistyped_option_is_another_code() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--secnods", "1"]

    assert subprocess.run(command, capture_output=True).returncode == 2


def permission(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """Ask for permission where ``ip`` says something and fails."""
    script = f"import sys; sys.exit({says!r})"
    monkeypatch.setattr(network, "_ip", lambda *_: network._run([sys.executable, "-c", script]))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(network, "_require", lambda *_: None)
    network.check_permission()


def test_only_a_refusal_of_the_kernel_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotPermitted, match="Operation not permitted"):
        permission(monkeypatch, "mount --make-shared /run/netns failed: Operation not permitted")


def test_any_other_failure_of_ip_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        permission(monkeypatch, 'Object "netsn" is unknown, try "ip help".')

    assert "netsn" in str(failed.value.__notes__)


def test_whoever_is_not_root_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(NotPermitted, match="root"):
        network.check_permission()


@pytest.mark.parametrize("suite", ["tests.chaos", "tests.attack"])
def test_a_machine_without_a_program_is_no_machine_that_refuses(suite: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is asked for more than to be root")
    code = f"from {suite}.__main__ import main; import sys; sys.argv[1:] = []; sys.exit(main())"
    own = os.environ | {"PATH": "/nowhere"}

    done = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True)

    assert done.returncode == MISSING, done.stderr
    assert "ip is missing; Debian/Ubuntu: apt install iproute2" in done.stderr
