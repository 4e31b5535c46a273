"""Who may look and who may change something, in a browser."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, Request, Response, expect

from pyspider_zk.webui.users import Role, change_users
from tests.browser.cluster_page import (
    action,
    check_accessibility,
    confirm,
    dialog,
    open_editor,
    open_page,
    row,
    tick,
)
from tests.browser.conftest import PATIENCE, PLAIN, ROOT, WINDOW, BrowsedCluster
from tests.support.ports import own_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

ANN = {"username": "ann", "password": "secret"}
CHANGES = re.compile(
    "^(Start|Delete|Cancel|Retry|[Dd]rain|[Ee]vict|[Aa]dmit|Maintenance|Hold|End|Rebalance|Pin|[Uu]npin|Save)"
)
EVE = {"username": "eve", "password": "look"}

Picture = Callable[..., None]
Start = Callable[..., str]


@pytest.fixture(scope="module")
def start(cluster: BrowsedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Give a function that starts one more web UI, with Ann's login, and returns its URL."""
    running = cluster.web.running
    folder = tmp_path_factory.mktemp("webui")
    options = [f"--{name.replace('_', '-')}={getattr(running, name)}" for name in DATABASES]
    command = [sys.executable, "-m", "pyspider_zk.cli.main", *options, "webui"]
    command += ["--host=127.0.0.1", *(f"--{name}={value}" for name, value in ANN.items())]
    started: list[subprocess.Popen[bytes]] = []

    def run(*more: str, **settings: str) -> str:
        port = own_port()
        settings = {"secret_file": running.secret_file, **settings}
        environ = {f"PYSPIDER_ZK_{name.upper()}": value for name, value in settings.items()}
        with (folder / "out.txt").open("ab") as out:
            started.append(
                subprocess.Popen(
                    [*command, f"--port={port}", *more],
                    cwd=folder,
                    env=os.environ | {"PYTHONPATH": str(ROOT), **environ},
                    stdout=out,
                    stderr=out,
                )
            )
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        return url

    yield run
    for process in started:
        process.terminate()
        process.wait(60)


DATABASES = ["zookeeper", "message_queue", "taskdb", "projectdb", "resultdb"]


def wait_for(url: str) -> None:
    eventually(lambda: answers(url), f"an answer of {url}")


def answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/robots.txt"):  # noqa: S310 - ours
            return True
    except HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def visit(chromium: Browser, url: str, who: dict[str, str] | None) -> Iterator[Page]:
    """Give a page of somebody; the name is sent only once the web UI asks for it."""
    options = {"base_url": url, "viewport": WINDOW, "reduced_motion": "reduce"}
    with chromium.new_context(**options, http_credentials=who) as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


def left(request: Request) -> bool:
    """Return whether a request failed because its page was left before the answer came."""
    return request.failure == "net::ERR_ABORTED"


def challenges(response: Response) -> list[str]:
    """Return the URL of an answer of the API to which the browser prompts for a password."""
    asks = "www-authenticate" in response.headers
    return [response.url] if asks and "/api/" in response.url else []


def log_in(page: Page) -> None:
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()


def started(page: Page) -> None:
    open_page(page, "projects?q=mine")
    tick(page, "mine")
    action(page, "Start").click()


@pytest.fixture(scope="module")
def closed(start: Start, cluster: BrowsedCluster) -> str:
    """Give the URL of a web UI that wants a login from everybody."""
    url = start("--need-auth", viewer_username="eve", viewer_password="look")  # noqa: S106
    cluster.make("mine")
    return url


@pytest.fixture(scope="module")
def readable(start: Start, cluster: BrowsedCluster) -> str:
    """Give the URL of a web UI that wants a login from who changes something."""
    url = start(login_to_change="yes")
    cluster.make("mine")
    return url


def test_with_need_auth_nobody_sees_anything_without_a_login(
    chromium: Browser, closed: str
) -> None:
    with visit(chromium, closed, None) as page:
        for path in ("/cluster/", "/", "/api/v1/overview", "/cluster/static/table.js"):
            assert page.request.get(path).status == 401
    with visit(chromium, closed, ANN) as page:
        started(page)
        confirm(page, "Start 1 project")
        expect(page.locator("#batch")).to_contain_text("1 of 1 project done")
        page.get_by_role("link", name="Details").click()
        expect(page.locator("#detail")).to_contain_text("by ann")


@pytest.mark.parametrize(
    "path", ["", "projects", "assignment?change=leaves%3D1", "batches", "steering"]
)
def test_a_viewer_sees_everything_and_finds_nothing_to_change(
    chromium: Browser, closed: str, path: str, picture: Picture
) -> None:
    with visit(chromium, closed, EVE) as page:
        open_page(page, path)
        expect(page.get_by_text("read-only")).to_be_visible()
        expect(page.locator("main thead:visible").first).to_be_visible()
        expect(page.get_by_role("button", name=CHANGES)).to_have_count(0)
        expect(page.get_by_role("checkbox")).to_have_count(0)
        check_accessibility(page)
        picture(page, path.partition("?")[0] or "overview")


def test_a_viewer_sees_who_turned_maintenance_on_and_what_is_set(
    chromium: Browser, closed: str, picture: Picture
) -> None:
    with visit(chromium, closed, ANN) as page:
        open_page(page, "steering")
        page.get_by_role("button", name="Maintenance…").click()
        confirm(page, "Turn maintenance on")
        assert page.request.post("/api/v1/slots/5/pin", data={"member": 7}).ok
    with visit(chromium, closed, EVE) as page:
        open_page(page, "steering")
        expect(page.locator("#maintenance")).to_contain_text(re.compile(r"Since .*, by ann\."))
        expect(page.locator("#pins")).to_contain_text("member 7, not running")
        expect(page.get_by_label("Moves")).to_have_value("64")
        expect(page.get_by_label("Moves")).not_to_be_editable()
        expect(page.get_by_role("button", name=CHANGES)).to_have_count(0)
        picture(page)
        assert page.request.post("/api/v1/maintenance", data={"mode": "off"}).status == 403
    with visit(chromium, closed, ANN) as page:
        assert page.request.post("/api/v1/slots/5/pin", data={"member": None}).ok
        assert page.request.post("/api/v1/maintenance", data={"mode": "off"}).ok


def test_a_viewer_is_told_who_may_change_what_pyspiders_pages_offer(
    chromium: Browser, closed: str, cluster: BrowsedCluster, picture: Picture
) -> None:
    before = cluster.web.project("mine")["status"]
    with visit(chromium, closed, EVE) as page:
        page.goto("/")
        expect(row(page, "mine")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("Create|Run"))).to_have_count(0)
        expect(page.get_by_title(re.compile("^change the"))).to_have_count(0)
        picture(page)
        for path in ("/update", "/run", "/debug/mine/save", "/debug/mine/run"):
            assert page.request.post(path).status == 403
    assert cluster.web.project("mine")["status"] == before


def test_a_viewer_reads_a_script_and_finds_nothing_that_would_be_refused(
    chromium: Browser, closed: str, picture: Picture
) -> None:
    with visit(chromium, closed, EVE) as page:
        open_page(page, "")
        for link in ("Projects", "mine", "Open it in the editor"):
            page.get_by_role("link", name=link, exact=True).click()
        expect(page.locator("#state")).to_have_text("saved")
        refused: list[str] = []
        page.on("response", lambda each: each.ok or refused.append(each.url))
        page.on("requestfailed", lambda each: left(each) or refused.append(each.url))
        open_editor(page, "mine")
        buttons = page.locator("main").get_by_role("button")
        expect(buttons).to_have_count(0)
        script = page.locator("#script .CodeMirror-code")
        script.click()
        page.keyboard.type("# changed")
        for key in ("Control+S", "Control+Enter"):
            page.keyboard.press(key)
        page.locator("#theme").click()
        expect(script).to_contain_text("class Handler")
        expect(script).not_to_contain_text("changed")
        check_accessibility(page)
        picture(page)
        assert refused == []


def test_the_editor_tells_who_else_is_at_a_script(chromium: Browser, closed: str) -> None:
    with visit(chromium, closed, ANN) as page:
        page.goto("/")  # where the browser learns that it must log in
        assert page.request.put("/api/v1/projects/mine/script", data={"script": PLAIN}).ok
    with visit(chromium, closed, EVE) as page:
        open_editor(page, "mine")
        told = page.locator("#colleagues")
        expect(told).to_have_text("also at it: ann")
        expect(told).to_have_attribute("title", re.compile(r"^ann, \d+ (s|min) ago$"))
        check_accessibility(page)
    with visit(chromium, closed, ANN) as page:
        with page.expect_response(re.compile("/events/archive")):
            open_editor(page, "mine")
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
        expect(page.locator("#colleagues")).to_be_hidden()


def test_a_locked_project_is_changed_with_a_login(
    chromium: Browser, start: Start, cluster: BrowsedCluster
) -> None:
    cluster.make("locked", group="lock")
    with visit(chromium, start(), ANN) as page:
        page.goto("/")
        tick(page, "locked")
        action(page, "Start").click()
        confirm(page, "Start 1 project")
        expect(page.locator("#batch")).to_contain_text("start: 1 of 1 project done")
    assert cluster.web.project("locked")["status"] == "RUNNING"


def test_with_login_to_change_everybody_looks_and_ann_changes(
    chromium: Browser, readable: str, picture: Picture
) -> None:
    with visit(chromium, readable, {**ANN, "password": "guessed"}) as page:
        started(page)
        expect(dialog(page).locator(".fault").first).to_contain_text("wrong name or password")
        picture(page)
    with visit(chromium, readable, ANN) as page:
        started(page)
        confirm(page, "Start 1 project")
        expect(page.locator("#batch")).to_contain_text("1 of 1 project done")
    with visit(chromium, readable, None) as page:
        open_page(page, "projects?q=mine")
        page.get_by_role("link", name="Log in").click()
        log_in(page)
        expect(page.get_by_title("your login")).to_have_text("ann")
        assert page.url.endswith("/cluster/projects?q=mine")


@pytest.mark.parametrize("path", ["/cluster/projects?q=mine", "/cluster/editor?project=mine"])
def test_a_page_says_that_its_session_has_ended_and_goes_on_in_the_next(
    chromium: Browser, closed: str, path: str, picture: Picture
) -> None:
    with visit(chromium, closed, None) as page:
        page.goto(f"/login/?next={quote(path)}")
        log_in(page)
        expect(page.get_by_title("your login")).to_have_text("ann")
        challenged: list[str] = []
        page.on("response", lambda each: challenged.extend(challenges(each)))
        page.wait_for_load_state()
        page.context.clear_cookies()  # as the browser does in the end
        ended = page.locator("#ended")
        expect(ended).to_be_visible()
        check_accessibility(page)
        picture(page, page.title().split()[0])
        with page.expect_popup() as popup:
            ended.get_by_role("link", name="Log in").click()
        log_in(popup.value)
        expect(popup.value.get_by_title("your login")).to_have_text("ann")
        assert popup.value.url.endswith(path)
        expect(ended).to_be_hidden()
        expect(page.locator("#missing")).to_be_hidden()
        assert challenged == []


def test_who_logs_in_by_the_page_has_a_session_with_a_role(
    chromium: Browser, start: Start, cluster: BrowsedCluster, tmp_path: Path, picture: Picture
) -> None:
    users = tmp_path / "users.json"
    change_users(users, Role.OPERATOR, "olga", "correct horse")
    url = start("--need-auth", users=str(users))
    cluster.make("mine")
    with visit(chromium, url, None) as page:
        page.goto("/login/?next=/cluster/")
        check_accessibility(page)
        picture(page)
        page.get_by_label("Name").fill("olga")
        page.get_by_label("Password").fill("guessed")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("wrong name or password")
        page.get_by_label("Name").fill("olga")
        page.get_by_label("Password").fill("correct horse")
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_title("Overview - cluster - pyspider")
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
        assert "olga" not in page.evaluate("document.cookie")
        started(page)
        confirm(page, "Start 1 project")
        expect(page.locator("#batch")).to_contain_text("1 of 1 project done")
        refused = page.request.post("/debug/mine/save", form={"script": "import os"})
        assert (refused.status, "as an admin" in refused.text()) == (403, True)
        open_page(page, "failures")
        check_accessibility(page)
        expect(page.get_by_title("your login")).to_have_text("olga")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Name")).to_be_visible()
        assert page.request.get("/cluster/").status == 401
