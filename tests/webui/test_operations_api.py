"""What the operations page asks the API for, of a real web UI at a real cluster."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import DeadLetter, Message
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.webui.cluster import PAGES
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.crew import BareScheduler
from tests.support.live_cluster import LiveCluster
from tests.support.memory_queues import MemorySlotQueues
from tests.webui.conftest import Eventually

pytestmark = pytest.mark.zk


@pytest.fixture
def client(ui: ClusterWebUI, cluster: LiveCluster) -> Iterator[Any]:
    """Give a client of a web UI whose cluster was born and has no scheduler (any more)."""
    with cluster.scheduler():
        pass
    for name, status in (("busy", "RUNNING"), ("idle", "STOP"), ("new", "RUNNING")):
        cluster.project(name, status=status)
    with ui.joined(cluster.settings, cluster.queues()):
        yield stock_app.test_client()


def ask(client: Any, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_constant=pytest.fail)  # browsers know no NaN


def kinds(client: Any) -> set[str]:
    return {alert["kind"] for alert in ask(client, "overview")["alerts"]}


@pytest.fixture
def owner(client: Any, cluster: LiveCluster, eventually: Eventually) -> Iterator[ClusterScheduler]:
    """Run a scheduler that has all slots and projects."""
    with cluster.scheduler() as scheduler:
        eventually(lambda: len(scheduler.fence.held) == cluster.settings.slots)
        eventually(lambda: scheduler.projects.keys() == {"busy", "idle", "new"})
        eventually(lambda: ask(client, "members")["items"])
        yield scheduler


# -- the overview ----------------------------------------------------------------------------


@pytest.mark.usefixtures("owner")
def test_the_overview_has_everything(client: Any, eventually: Eventually) -> None:
    eventually(lambda: ask(client, "overview")["members"][0]["projects"] == 3)
    found = ask(client, "overview")
    (member,) = found["members"]
    assert found["missing"] == []
    assert (found["leader"], member["leader"], member["suspect"]) == (0, True, False)
    assert member["slots"] == found["slots"]
    assert 0 <= member["lease_age"] < 60
    assert len(found["throughput"]["success"]) == 60
    assert {queue["name"] for queue in found["queues"]} > {"newtask_queue", "status_queue"}
    assert found["components"]["webui"][0]["pid"] > 0


def test_messages_that_nobody_reads_and_dead_letters_are_told(
    client: Any, cluster: LiveCluster
) -> None:
    queues = cluster.queues().slot_queues
    queues.publish([Message(QueueKind.STATUS, 3, {})])
    cluster.broker.reject(QueueKind.STATUS, 3, "no task", b"")
    found = ask(client, "overview")
    oldest = {queue["name"]: queue["oldest"] for queue in found["queues"]}
    assert oldest["status_queue"] >= 0
    assert oldest["newtask_queue"] is None
    assert found["dead_letters"] == 1
    assert {"no-member", "unread-queue", "dead-letters"} <= kinds(client)


def test_what_does_not_answer_is_named_and_the_rest_is_told(client: Any) -> None:
    found = ask(client, "overview")
    assert (found["throughput"], found["members"]) == (None, [])
    assert found["missing"] == [
        "no scheduler answers: throughput and numbers of projects are unknown"
    ]


LOOKING = ["overview", "workload", "projects", "projects/busy", "assignment", "assignment/preview"]


@pytest.mark.parametrize("path", LOOKING)
def test_an_answer_looks_at_zookeeper_once(
    client: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    looks: list[Directory] = []
    read = Directory.read

    def counted(directory: Directory) -> Cluster:
        looks.append(directory)
        return read(directory)

    monkeypatch.setattr(Directory, "read", counted)
    ask(client, path)
    assert len(looks) == 1


# -- projects with numbers -------------------------------------------------------------------


def test_projects_have_their_owners_numbers_once_an_owner_has_them(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    assert [row["numbers"] for row in ask(client, "workload")["items"]] == [None] * 3
    with cluster.scheduler() as scheduler:
        eventually(lambda: scheduler.projects.keys() == {"busy", "idle", "new"})
        scheduler.projects["new"].task_queue.put("t")
        eventually(lambda: ask(client, "workload?pattern=new")["items"][0]["numbers"])
        page = ask(client, "workload?sort=-pending&limit=2")
        assert (page["total"], len(page["items"])) == (3, 2)
        assert page["items"][0]["name"] == "new"
        assert page["items"][0]["numbers"]["pending"] >= 1


def test_projects_are_found_by_their_trouble(client: Any, owner: ClusterScheduler) -> None:
    owner.projects["busy"].cannot_start = "SyntaxError"
    page = ask(client, "workload?trouble=cannot_start&sort=-pending")
    assert [row["name"] for row in page["items"]] == ["busy"]
    assert page["total"] == 1
    for none in ("trouble=paused", "trouble=cannot_start&pattern=idle", "trouble=quarantined"):
        assert ask(client, f"workload?{none}") | {"at": 0} == {**NOTHING, "at": 0}
    assert client.get("/api/v1/workload?trouble=all").status_code == 422


NOTHING = {"items": [], "total": 0, "offset": 0, "missing": []}


@pytest.mark.parametrize("path", ["workload", "projects", "projects/busy"])
@pytest.mark.usefixtures("owner")
def test_a_rate_that_is_no_number_in_json_is_null(client: Any, ui: ClusterWebUI, path: str) -> None:
    ui.config["projectdb"].update("busy", rate=float("inf"), burst=float("inf"))
    found = ask(client, path)
    busy = found["items"][0] if "items" in found else found
    assert (busy["name"], busy["rate"], busy["burst"]) == ("busy", None, None)


@pytest.mark.usefixtures("owner")
def test_the_latest_tries_of_a_project_are_told(client: Any, owner: ClusterScheduler) -> None:
    track = {
        "fetch": {"ok": True, "time": 0.5, "status_code": 200},
        "process": {"ok": False, "time": "long", "follows": 3},
    }
    task = {"taskid": "a", "project": "busy", "url": "http://u", "track": track}
    log = owner.projects["busy"].active_tasks
    log.clear()
    log.append((4e9, {**task, "taskid": "_on_get_info"}))
    log.extend([(3e9, {**task, "type": 1}), (2e9, task), (1e9, {**task, "track": "junk"})])
    sent, failed, junk = ask(client, "tries?project=busy")["items"]
    assert (sent["at"], sent["ok"], sent["status_code"]) == (3e9, None, None)
    assert (failed["ok"], failed["status_code"], failed["follows"]) == (False, 200, 3)
    assert (failed["fetch_time"], failed["process_time"]) == (0.5, None)
    assert (junk["ok"], junk["url"]) == (False, "http://u")
    assert [each["project"] for each in ask(client, "tries")["items"]] == ["busy"] * 3
    assert len(ask(client, "tries?project=busy&limit=2")["items"]) == 1
    assert ask(client, "tries?project=idle") == {"items": [], "missing": []}


def test_without_a_scheduler_no_tries_are_known(client: Any) -> None:
    found = ask(client, "tries?project=busy")
    assert found["items"] == []
    assert "no scheduler can be reached" in found["missing"][0]


@pytest.mark.usefixtures("owner")
def test_whose_tries_are_missing_is_told(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("pyspider_zk.rpc.router.call", silent)
    assert ask(client, "tries") == {"items": [], "missing": ["member 0 does not answer"]}


def test_a_name_that_no_scheduler_can_be_asked_for_has_no_tries(
    client: Any, owner: ClusterScheduler
) -> None:
    assert owner.fence.held
    assert ask(client, "tries?project=%EF%BF%BF")["items"] == []


def test_a_wrong_order_is_refused(client: Any) -> None:
    assert client.get("/api/v1/workload?sort=colour").status_code == 422


# -- the assignment --------------------------------------------------------------------------


def test_what_would_move_is_told_and_nothing_is_changed(
    client: Any, owner: ClusterScheduler, cluster: LiveCluster
) -> None:
    before = ask(client, "assignment")["items"]
    found = ask(client, "assignment/preview?joins=1")
    slots = cluster.settings.slots
    assert slots * 0.4 < found["total"] < slots * 0.6
    assert found["pairs"] == [{"source": 0, "target": 1, "slots": found["total"]}]
    assert [move["slot"] for move in found["items"]] == sorted(
        move["slot"] for move in found["items"]
    )
    assert ask(client, "assignment/preview?leaves=0")["total"] == 0  # nobody could take them
    assert client.get("/api/v1/assignment/preview?leaves=7").status_code == 404
    assert ask(client, "assignment")["items"] == before
    assert len(owner.fence.held) == slots


def test_a_member_drains_and_its_slots_move(
    client: Any, owner: ClusterScheduler, cluster: LiveCluster, eventually: Eventually
) -> None:
    with cluster.scheduler() as other:
        eventually(lambda: len(ask(client, "members")["items"]) == 2)
        for _ in range(2):  # asking twice does not end it at once
            answer = client.post("/api/v1/members/0/drain")
            assert (answer.status_code, answer.get_json()["number"]) == (202, 0)
        eventually(lambda: len(other.fence.held) == cluster.settings.slots)
        eventually(lambda: [each["number"] for each in ask(client, "members")["items"]] == [1])
    assert not owner.fence.held
    assert not owner._quit
    drains = [event for event in ask(client, "events")["items"] if event["kind"] == "drain"]
    assert len(drains) == 2


@pytest.mark.usefixtures("owner")
def test_a_number_that_went_to_another_process_is_not_drained(client: Any) -> None:
    answer = client.post("/api/v1/members/0/drain", json={"incarnation": "another"})
    assert (answer.status_code, "look again" in answer.get_json()["detail"]) == (409, True)
    assert not any(each["draining"] for each in ask(client, "members")["items"])


# -- settings, maintenance, evictions and pins ---------------------------------------------------

ORDERS = [
    ("settings", {"lease": 6, "moves": 9}, {"lease": 6, "moves": 9}),
    ("settings", {"restart_delay": None}, {"restart_delay": 0}),
    ("settings", {"weigh_by": "projects"}, {"weigh_by": "projects"}),
    ("maintenance", {"mode": "hold"}, {"maintenance": "hold"}),
    ("members/7/evict", {}, {"evicted": [7]}),
    ("slots/3/pin", {"member": 7}, {"pins": [{"slot": 3, "member": 7}]}),
]


@pytest.mark.parametrize(("path", "body", "found"), ORDERS)
def test_an_order_is_told_in_the_settings_and_the_overview(
    client: Any, path: str, body: dict[str, Any], found: dict[str, Any]
) -> None:
    answer = client.post(f"/api/v1/{path}", json=body)

    assert answer.status_code == 200, answer.text
    assert answer.json.items() >= found.items()
    assert ask(client, "settings") == answer.json
    assert ask(client, "overview")["settings"] == answer.json


def test_evictions_and_pins_are_taken_back(client: Any) -> None:
    client.post("/api/v1/members/7/evict", json={})
    client.post("/api/v1/slots/3/pin", json={"member": 7})

    client.post("/api/v1/members/7/evict", json={"undo": True})
    client.post("/api/v1/slots/3/pin", json={"member": None})

    assert (ask(client, "settings")["evicted"], ask(client, "settings")["pins"]) == ([], [])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("settings", {"lease": 0.1}, 422),
        ("settings", {"lease": 3, "renewal": 2}, 422),
        ("settings", {"leese": 3}, 422),
        ("maintenance", {"mode": "perhaps"}, 422),
        ("slots/99999/pin", {"member": 1}, 404),
        ("slots/1/pin", {"member": -1}, 422),
        ("members/1000000000/evict", {}, 422),
    ],
)
def test_what_cannot_be_ordered_is_refused(
    client: Any, path: str, body: dict[str, Any], status: int
) -> None:
    assert client.post(f"/api/v1/{path}", json=body).status_code == status


def test_maintenance_is_an_alert(client: Any) -> None:
    client.post("/api/v1/maintenance", json={"mode": "on"})
    assert "maintenance" in kinds(client)

    client.post("/api/v1/maintenance", json={"mode": "off"})
    assert "maintenance" not in kinds(client)


def test_a_value_that_cannot_be_is_blamed_on_its_field(client: Any) -> None:
    client.post("/api/v1/settings", json={"renewal": 2})
    for value, fault in ((0.1, "Must be greater than"), (3, "at least three renewals of 2 s")):
        answer = client.post("/api/v1/settings", json={"lease": value})
        assert fault in answer.json["errors"]["json"]["lease"][0]


# -- rebalancing -----------------------------------------------------------------------------


@pytest.fixture
def uneven(
    client: Any, owner: ClusterScheduler, cluster: LiveCluster, eventually: Eventually
) -> Iterator[int]:
    """Give the number of slots that would move, for one of two members has all, in maintenance."""
    client.post("/api/v1/maintenance", json={"mode": "hold"})
    with cluster.scheduler():
        eventually(lambda: len(ask(client, "members")["items"]) == 2)
        yield ask(client, "assignment/preview?without_maintenance=true")["total"]
    assert owner.fence.held


def rebalance(client: Any, **body: Any) -> Any:
    return client.post("/api/v1/assignment/rebalance", json=body)


def progress(client: Any) -> Any:
    return ask(client, "assignment/rebalance")


def test_rebalancing_moves_what_was_shown_and_maintenance_goes_on(
    client: Any, owner: ClusterScheduler, uneven: int, eventually: Eventually
) -> None:
    slots = len(owner.fence.held)
    assert 0.4 * slots < uneven < 0.6 * slots
    assert ask(client, "assignment/preview")["total"] == 0  # maintenance holds them
    assert progress(client)["state"] == "none"

    plan = ask(client, "assignment/preview?without_maintenance=true")["digest"]
    begun = rebalance(client, plan=plan)

    assert (begun.status_code, begun.json["state"]) == (202, "running")
    assert (begun.json["total"], begun.json["left"]) == (uneven, uneven)
    eventually(lambda: progress(client)["state"] != "running")
    assert progress(client) == {"state": "done", "total": uneven, "left": 0, "fault": ""}
    assert ask(client, "settings")["maintenance"] == "hold"
    assert len(owner.fence.held) == slots - uneven
    kinds_told = [event["kind"] for event in ask(client, "events")["items"]]
    assert kinds_told.count("rebalance") == 2


def test_other_moves_than_were_shown_are_refused(client: Any, uneven: int) -> None:
    plan = ask(client, "assignment/preview?without_maintenance=true")["digest"]
    client.post("/api/v1/slots/0/pin", json={"member": 1})
    client.post("/api/v1/slots/1/pin", json={"member": 0})

    refused = rebalance(client, plan=plan)

    assert (refused.status_code, "look again" in refused.json["detail"]) == (409, True)
    assert (progress(client)["state"], uneven > 0) == ("none", True)
    assert ask(client, "settings")["maintenance"] == "hold"


@pytest.mark.usefixtures("uneven")
def test_one_is_rebalancing_at_a_time(client: Any, eventually: Eventually) -> None:
    client.post("/api/v1/settings", json={"moves": 1})  # it takes a while
    assert rebalance(client).status_code == 202

    again = rebalance(client)

    assert (again.status_code, "runs already" in again.json["detail"]) == (409, True)
    eventually(lambda: ask(client, "settings")["rebalance"])


def test_a_web_ui_that_ends_while_it_rebalances_lets_maintenance_go_on(
    ui: ClusterWebUI, cluster: LiveCluster, eventually: Eventually
) -> None:
    settings = cluster.settings
    owner, other = BareScheduler(settings), BareScheduler(settings)
    owner.hold_on.set()  # it releases nothing, so the rebalancing cannot end before the web UI
    with ExitStack() as stack:
        stack.callback(owner.start().stop)
        eventually(lambda: len(owner.open) == settings.slots)
        with ui.joined(cluster.settings, cluster.queues()):
            client = stock_app.test_client()
            client.post("/api/v1/maintenance", json={"mode": "on"})
            stack.callback(other.start().stop)
            assert rebalance(client).status_code == 202
            eventually(lambda: ask(client, "settings")["rebalance"])
            assert progress(client)["state"] == "running"
        assert (len(owner.open), other.open) == (settings.slots, set())
        with ui.joined(cluster.settings, cluster.queues()):
            told = ask(client, "settings")
            assert (told["maintenance"], told["rebalance"]) == ("on", False)


def test_a_member_that_is_not_there_cannot_drain(client: Any) -> None:
    assert client.post("/api/v1/members/3/drain").status_code == 404


# -- dead letters ----------------------------------------------------------------------------


@pytest.fixture
def letters(client: Any, cluster: LiveCluster) -> list[str]:
    """Give the tags of three dead letters, the newest first."""
    for number in range(3):
        cluster.broker.reject(QueueKind.NEWTASK, slot_of("busy", 256), f"reason {number}", b"\xc1")
    return [letter["tag"] for letter in ask(client, "dead-letters")["items"]]


def test_dead_letters_are_paged_with_their_reasons(client: Any, letters: list[str]) -> None:
    page = ask(client, "dead-letters?offset=1&limit=1")
    assert (page["total"], [each["tag"] for each in page["items"]]) == (3, letters[1:2])
    assert page["items"][0]["reason"] == "reason 1"


@pytest.mark.parametrize("offset", [2, 2**31 - 1])
def test_no_letters_are_read_but_the_page(
    client: Any, letters: list[str], monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    read = MemorySlotQueues.dead_letters
    sizes: list[int] = []

    def counted(queues: MemorySlotQueues, limit: int, *skipped: int) -> list[DeadLetter]:
        found = read(queues, limit, *skipped)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(MemorySlotQueues, "dead_letters", counted)
    page = ask(client, f"dead-letters?offset={offset}&limit=1")
    assert (page["newest"], [each["tag"] for each in page["items"]]) == (
        letters[0],
        letters[offset:],
    )
    assert max(sizes) == 1


def test_a_letter_that_json_cannot_hold_is_listed_as_text(
    client: Any, cluster: LiveCluster
) -> None:
    for body in (b"\x91\xcb\x7f\xf8" + bytes(6), b"\x91" * 1000 + b"\xc0", b"\x91\x01"):
        cluster.broker.reject(QueueKind.STATUS, 3, "no task", body)
    usable, deep, nan = (letter["message"] for letter in ask(client, "dead-letters")["items"])
    assert (usable, nan) == ([1], "[nan]")
    assert deep.startswith("b'\\x91")


def test_dead_letters_are_replayed_and_dropped(
    client: Any, cluster: LiveCluster, letters: list[str]
) -> None:
    def settle(act: str, body: dict[str, Any]) -> Any:
        return client.post(f"/api/v1/dead-letters/{act}", json=body)

    assert settle("drop", {"tags": [letters[0], "unknown"]}).get_json() == {"count": 1}
    assert settle("replay", {"tags": letters[1:2]}).get_json() == {"count": 1}
    assert cluster.queues().slot_queues.lengths()[QueueKind.NEWTASK] == 1
    seen = ask(client, "dead-letters?offset=1")["newest"]
    cluster.broker.reject(QueueKind.NEWTASK, 3, "found meanwhile", b"\xc1")
    assert settle("drop", {"all": True, "until": seen}).get_json() == {"count": 1}
    assert [each["reason"] for each in ask(client, "dead-letters")["items"]] == ["found meanwhile"]
    assert settle("drop", {"all": True}).get_json() == {"count": 1}
    assert settle("drop", {"all": True}).get_json() == {"count": 0}
    for wrong in (
        {},
        {"all": True, "tags": letters},
        {"all": 1},
        {"tags": letters, "all": 0.0},
        {"all": True, "until": "+"},
        {"tags": ["1-1"], "until": "1-1"},
        {"all": True, "until": "9" * 20},
        {"all": True, "until": "\u0661-\u0661"},
    ):
        assert settle("drop", wrong).status_code == 422
    texts = [event["text"] for event in ask(client, "events")["items"]]
    assert "1 dead letter was replayed" in texts


# -- the pages -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/cluster/", "/cluster/projects", "/cluster/static/api.js"])
def test_pages_are_protected_as_pyspiders_are(client: Any, ui: ClusterWebUI, path: str) -> None:
    def status(**login: Any) -> int:
        with client.get(path, **login) as answer:
            return int(answer.status_code)

    assert status() == 200
    ui.config.update(need_auth=True, webui_username="ann", webui_password="secret")  # noqa: S106
    assert status() == 401
    assert status(auth=("ann", "secret")) == 200


def test_frames_hold_no_code(client: Any) -> None:
    for path in (page.path.removeprefix("/") for page in PAGES):
        page = client.get(f"/cluster/{path}").get_data(as_text=True)
        assert "<h1>" in page
        assert not [word for word in (" style=", " onclick=", "<script>", "<style") if word in page]
