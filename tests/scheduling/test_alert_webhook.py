"""Changes of alerts, posted to a real server that fails, hangs and recovers."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.cluster.alerts import Observation
from pyspider_zk.cluster.records import Assignment, Cluster, Meta
from pyspider_zk.config import Settings
from pyspider_zk.queues.queue_sizes import Waiting
from pyspider_zk.scheduling import alert_webhook, census
from pyspider_zk.scheduling.alert_webhook import AlertWebhook, signature, signing_key
from pyspider_zk.scheduling.census import ClusterLook
from tests.support.live_cluster import LiveCluster
from tests.support.ports import own_port
from tests.support.stand_ins import running

SECRET = "the secret of the tests"  # noqa: S105
CLUSTER = Cluster(Meta(1), Assignment.vacant(1))
Eventually = Callable[..., Any]


class Receiver:
    """A server of an operator.

    Attributes:
        status: what it answers; 0: nothing, until ``release``.
        messages: what it accepted.
        refused: what it did not.
        headers: of the last request.
    """

    def __init__(self) -> None:
        self.status = 204
        self.location = ""
        self.messages: queue.Queue[Any] = queue.Queue()
        self.refused: queue.Queue[Any] = queue.Queue()
        self.headers: Any = {}
        self.body = b""
        self._released = threading.Event()
        receiver = self

        class ReceiverHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.status
                if status == 0:
                    receiver.refused.put(json.loads(body))
                    receiver._released.wait(60)
                    return
                receiver.headers, receiver.body = self.headers, body
                into = receiver.messages if status < 300 else receiver.refused
                into.put(json.loads(body))
                self.send_response(status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), ReceiverHandler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cr3t"

    def accepted(self) -> Any:
        return self.messages.get(timeout=60)

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with running(made.server.serve_forever, 0.01):
        yield made
        made.release()
        made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts follow each other quickly."""
    monkeypatch.setattr(alert_webhook, "PAUSES", (0.01,))
    monkeypatch.setattr(census, "INTERVAL", 0.05)


@pytest.fixture
def start() -> Iterator[Callable[..., AlertWebhook]]:
    """Give a function that starts a webhook."""
    with ExitStack() as stack:

        def start(url: str, secret: str = "") -> AlertWebhook:
            made = AlertWebhook(url, secret, "/crawl")
            made.loop.start()
            stack.callback(made.loop.stop, 1.0)
            return made

        yield start


Start = Callable[..., AlertWebhook]


def look(dead: int | None = 0, full: tuple[int, ...] = ()) -> ClusterLook:
    """Return a look at a cluster without members, and with so many dead letters."""
    known = {} if dead is None else {"dead_letters": dead}
    sight = Observation(CLUSTER, dead_letters=dead, full=full)
    whole = known if dead is not None else None
    return ClusterLook(time.monotonic(), sight, Waiting(whole, {}, {}), 0)


def kinds(message: Any, group: str) -> list[str]:
    return sorted(alert["kind"] for alert in message[group])


ALWAYS = ["no-component"] * 3 + ["no-member"]


def test_what_changes_is_told_with_all_that_is(receiver: Receiver, start: Start) -> None:
    webhook = start(receiver.url)
    webhook.follow(look())
    first = receiver.accepted()
    assert first["cluster"] == "/crawl"
    assert kinds(first, "raised") == kinds(first, "alerts") == ALWAYS
    webhook.follow(look(dead=1))
    second = receiver.accepted()
    assert (kinds(second, "raised"), kinds(second, "cleared")) == (["dead-letters"], [])
    assert kinds(second, "alerts") == sorted([*ALWAYS, "dead-letters"])
    assert second["raised"][0]["text"].startswith("1 dead letter")
    webhook.follow(look(dead=2))  # is no change
    webhook.follow(look())
    third = receiver.accepted()
    assert (kinds(third, "raised"), kinds(third, "cleared")) == ([], ["dead-letters"])
    assert receiver.messages.empty()


def test_a_leader_begins_with_everything_even_if_nothing_is_raised(
    receiver: Receiver, start: Start
) -> None:
    webhook = start(receiver.url)
    nothing = ClusterLook(0.0, Observation(), Waiting({"dead_letters": 0}, {}, {}), 0)
    webhook.follow(nothing)
    assert receiver.accepted()["alerts"] == []
    webhook.follow(nothing)
    webhook.follow(None)  # another leads meanwhile
    webhook.follow(nothing)
    assert receiver.accepted()["alerts"] == []
    assert receiver.messages.empty()


def test_what_is_unknown_is_not_cleared(receiver: Receiver, start: Start) -> None:
    webhook = start(receiver.url)
    webhook.follow(look(dead=1))
    receiver.accepted()
    webhook.follow(look(dead=None))
    webhook.follow(look(dead=None, full=(3,)))
    told = receiver.accepted()
    assert (kinds(told, "raised"), kinds(told, "cleared")) == (["parked-full"], [])
    assert "dead-letters" in kinds(told, "alerts")


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_a_server_that_fails_gets_every_message_in_order_once_it_recovers(
    receiver: Receiver, start: Start, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = status
    webhook = start(receiver.url)
    webhook.follow(look())
    for _ in range(3):
        assert kinds(receiver.refused.get(timeout=60), "raised") == ALWAYS
    webhook.follow(look(dead=1))
    receiver.status = 200
    assert kinds(receiver.accepted(), "raised") == ALWAYS
    assert kinds(receiver.accepted(), "raised") == ["dead-letters"]
    said = [each for each in caplog.messages if "does not accept" in each]
    assert len(said) == 1
    assert str(status) in said[0]
    assert "s3cr3t" not in caplog.text


def test_a_server_that_hangs_holds_up_nobody(
    receiver: Receiver, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_webhook, "SEND_LIMIT", 0.1)
    receiver.status = 0
    webhook = start(receiver.url)
    webhook.follow(look())
    receiver.refused.get(timeout=60)
    webhook.follow(look(dead=1))  # returns, though the server is silent
    receiver.refused.get(timeout=60)  # the first message, once more
    receiver.status = 200
    assert kinds(receiver.accepted(), "raised") == ALWAYS
    # A reply that comes late is no reply, so the first message may be there more than once.
    following = iter(lambda: kinds(receiver.accepted(), "raised"), None)
    assert next(raised for raised in following if raised != ALWAYS) == ["dead-letters"]


def test_a_server_that_is_not_there_is_tried_again(start: Start, eventually: Eventually) -> None:
    webhook = start(f"http://127.0.0.1:{own_port()}/gone")
    webhook.follow(look())
    eventually(lambda: webhook._failures > 2)
    assert webhook._outage.lasts


def test_redirections_are_not_followed(
    receiver: Receiver, start: Start, eventually: Eventually
) -> None:
    elsewhere = Receiver()
    with running(elsewhere.server.serve_forever, 0.01):
        receiver.status, receiver.location = 307, elsewhere.url
        webhook = start(receiver.url)
        webhook.follow(look())
        eventually(lambda: webhook._failures > 2)
        elsewhere.server.shutdown()
    elsewhere.server.server_close()
    assert elsewhere.messages.empty()


def test_messages_beyond_the_limit_push_out_the_oldest(
    receiver: Receiver,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(alert_webhook, "MOST_MESSAGES", 2)
    receiver.status = 500
    webhook = start(receiver.url)
    for dead in (0, 1, 0, 1):
        webhook.follow(look(dead=dead))
    while kinds(receiver.refused.get(timeout=60), "cleared") != ["dead-letters"]:
        pass  # it was on its way before it was pushed out
    receiver.status = 200
    assert kinds(receiver.accepted(), "cleared") == ["dead-letters"]
    assert kinds(receiver.accepted(), "raised") == ["dead-letters"]
    assert sum("is dropped" in each for each in caplog.messages) == 2


def test_messages_are_signed_with_the_secret(receiver: Receiver, start: Start) -> None:
    webhook = start(receiver.url, SECRET)
    webhook.follow(look())
    receiver.accepted()
    now = receiver.headers["X-PyspiderZk-Time"]
    given = receiver.headers["X-PyspiderZk-Signature"]
    assert given == signature(signing_key(SECRET), now, receiver.body)
    assert given != signature(signing_key(SECRET + "x"), now, receiver.body)
    assert abs(int(now) - time.time()) < 60
    assert SECRET not in str(receiver.headers) + receiver.body.decode()


def test_without_a_secret_messages_are_not_signed(receiver: Receiver, start: Start) -> None:
    start(receiver.url).follow(look())
    receiver.accepted()
    assert "X-PyspiderZk-Signature" not in receiver.headers


@pytest.mark.zk
def test_the_leader_of_a_cluster_tells_and_a_broken_receiver_stops_nothing(
    tmp_path: Path, cluster_settings: Settings, receiver: Receiver, eventually: Eventually
) -> None:
    receiver.status = 0
    settings = replace(cluster_settings, slots=8, alert_webhook=receiver.url)
    cluster = LiveCluster(tmp_path, settings)
    with ExitStack() as stack:
        schedulers = [stack.enter_context(cluster.scheduler()) for _ in range(2)]
        told = receiver.refused.get(timeout=60)
        assert told["cluster"] == settings.root
        eventually(lambda: sum(len(each.fence.held) for each in schedulers) == 8)
        assert all(each.fence.all_open() for each in schedulers)
        receiver.status = 200
        receiver.release()
        assert "no-component" in kinds(receiver.accepted(), "alerts")


def test_the_documentation_shows_how_to_check_a_signature(receiver: Receiver, start: Start) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "monitor.md"
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    documented: dict[str, Any] = {}
    exec(code, documented)  # noqa: S102 - our own documentation
    start(receiver.url, SECRET).follow(look())
    receiver.accepted()
    is_ours = documented["is_ours"]
    assert is_ours(SECRET.encode(), receiver.headers, receiver.body)
    assert not is_ours(SECRET.encode(), receiver.headers, receiver.body + b" ")
    assert not is_ours(b"another secret of tests", receiver.headers, receiver.body)
