"""``dead-letters`` shows what nobody could use, puts it back, or drops it."""

import json
from typing import Any

import pytest
import redis

from pyspider_zk.cli.target import user
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.queues.api import Message, SlotQueues
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from tests.cli.conftest import Run, announced, ended, hosts
from tests.support.connected import connected
from tests.support.ports import own_port

SLOTS = 8


@pytest.fixture
def queues(redis_url: str) -> Any:
    made = connect(redis_url, 0, SLOTS)
    yield made.slot_queues
    made.close()


def reject(queues: SlotQueues, *bodies: object) -> list[str]:
    """Reject messages of slot 3; return the tags of their letters in the same order."""
    queues.take([3])
    queues.publish([Message(QueueKind.NEWTASK, 3, body) for body in bodies])
    for delivery in queues.read(QueueKind.NEWTASK, len(bodies)):
        queues.reject(delivery, "a task needs taskid")
    return [letter.tag for letter in queues.dead_letters(len(bodies))][::-1]


def listed(run: Run, url: str, *options: object) -> Any:
    result = ended(run("--message-queue", url, "dead-letters", "list", "--json", *options))
    return json.loads(result.stdout)


def test_it_explains_itself(run: Run) -> None:
    text = run("dead-letters", "--help").output
    assert all(name in text for name in ("list", "replay", "drop"))


@pytest.mark.redis
def test_json_tells_all_of_a_letter(run: Run, redis_url: str, queues: SlotQueues) -> None:
    body = {"project": "p", "url": "http://site.example/", "blob": b"\xff", 1: [None, 2.5]}
    (tag,) = reject(queues, body)
    found = listed(run, redis_url)
    (letter,) = found["letters"]
    assert found["total"] == 1
    assert letter.pop("time") > 1_600_000_000
    assert letter.pop("bytes") == len(encode(body))
    assert letter == {
        "cut": False,
        "tag": tag,
        "queue": "newtask_queue:3",
        "reason": "a task needs taskid",
        "message": {"project": "p", "url": body["url"], "blob": r"b'\xff'", "1": [None, 2.5]},
    }


@pytest.mark.redis
@pytest.mark.parametrize("body", [{b"bytes": 1}, {(1, 2): 3}, "text", None])
def test_whatever_a_message_holds_it_is_shown(
    run: Run, redis_url: str, queues: SlotQueues, body: object
) -> None:
    reject(queues, body)
    assert listed(run, redis_url)["total"] == 1
    result = run("dead-letters", "list", "--message-queue", redis_url)
    assert "newtask_queue:3" in result.output


@pytest.mark.redis
def test_bytes_that_are_no_message_are_shown(run: Run, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.rpush("status_queue", b"\xc1[red]")
    whole = connect(redis_url, 0, SLOTS)
    whole.inbox.forward(9)
    whole.close()
    (letter,) = listed(run, redis_url)["letters"]
    assert (letter["queue"], letter["message"]) == ("status_queue", r"b'\xc1[red]'")
    assert r"b'\xc1[red]'" in run("dead-letters", "list", "--message-queue", redis_url).output


@pytest.mark.redis
def test_a_letter_whose_time_is_none_is_shown(run: Run, redis_url: str, queues: SlotQueues) -> None:
    reject(queues, "text")
    with redis.Redis.from_url(redis_url) as client:
        (key,) = client.keys("*dead*")
        ((_, fields),) = client.xrange(key)
        client.xadd(key, fields, id="18446744073709551614-1")
    assert "unreadable" in ended(run("dead-letters", "list", "--message-queue", redis_url)).stdout


@pytest.mark.redis
def test_the_latest_letters_come_first(run: Run, redis_url: str, queues: SlotQueues) -> None:
    tags = reject(queues, "a", "b", "c")
    found = listed(run, redis_url, "--limit", 2)
    assert [letter["tag"] for letter in found["letters"]] == [tags[2], tags[1]]
    text = run("dead-letters", "list", "--limit", 2, "--message-queue", redis_url).output
    assert "2 of 3 dead letters" in text


@pytest.mark.redis
def test_nothing_to_show_is_said(run: Run, redis_url: str) -> None:
    assert run("dead-letters", "list", "--message-queue", redis_url).output == "no dead letters\n"


@pytest.mark.redis
def test_named_letters_are_replayed(run: Run, redis_url: str, queues: SlotQueues) -> None:
    first, second, third = reject(queues, "a", "b", "c")
    result = run("dead-letters", "replay", first, third, "--message-queue", redis_url)
    assert (result.exit_code, result.output) == (0, "2 dead letters put back\n")
    assert [delivery.body for delivery in queues.read(QueueKind.NEWTASK, 9)] == ["a", "c"]
    assert [letter.tag for letter in queues.dead_letters(9)] == [second]


@pytest.mark.redis
def test_all_letters_are_replayed_oldest_first(
    run: Run, redis_url: str, queues: SlotQueues
) -> None:
    reject(queues, *"abc")
    result = run("dead-letters", "replay", "--all", "--message-queue", redis_url)
    assert (result.exit_code, result.output) == (0, "3 dead letters put back\n")
    assert [delivery.body for delivery in queues.read(QueueKind.NEWTASK, 9)] == ["a", "b", "c"]


@pytest.mark.redis
def test_letters_are_dropped(run: Run, redis_url: str, queues: SlotQueues) -> None:
    first, *_ = reject(queues, "a", "b", "c")
    one = run("dead-letters", "drop", first, "--message-queue", redis_url)
    rest = run("dead-letters", "drop", "--all", "--message-queue", redis_url)
    assert [one.output, rest.output] == ["1 dead letter dropped\n", "2 dead letters dropped\n"]
    assert (queues.dead(), queues.lengths()[QueueKind.NEWTASK]) == (0, 0)


@pytest.mark.redis
@pytest.mark.parametrize("command", ["replay", "drop"])
def test_a_tag_that_is_not_there_is_an_error_after_the_others_are_done(
    run: Run, redis_url: str, queues: SlotQueues, command: str
) -> None:
    (tag,) = reject(queues, "a")
    result = ended(run("dead-letters", command, "1-1", tag, "x", "--message-queue", redis_url), 1)
    assert result.stdout.startswith("1 dead letter ")
    assert "2 of these tags are not there" in result.stderr
    assert queues.dead() == 0


@pytest.mark.parametrize("command", ["replay", "drop"])
@pytest.mark.parametrize("arguments", [[], ["1-1", "--all"]])
def test_tags_or_all_must_be_said(run: Run, command: str, arguments: list[str]) -> None:
    result = run("dead-letters", command, *arguments, "--message-queue", "redis://nowhere")
    assert result.exit_code == 2
    assert "--all" in result.stderr


@pytest.mark.redis
def test_the_cluster_that_up_runs_in_this_folder_is_found(
    run: Run, redis_url: str, queues: SlotQueues
) -> None:
    reject(queues, "a")
    with announced("127.0.0.1:1", redis_url):
        found = json.loads(run("dead-letters", "list", "--json").stdout)
    assert found["total"] == 1


def test_without_any_message_queue_the_remedy_is_told(run: Run) -> None:
    assert "--message-queue" in ended(run("dead-letters", "list"), 2).stderr


def test_a_message_queue_that_is_away_is_named(run: Run) -> None:
    result = run("dead-letters", "list", "--message-queue", "redis://:secret@127.0.0.1:1/0")
    assert result.exit_code == 3
    assert "Redis at 127.0.0.1:1" in result.stderr
    assert "secret" not in result.output


@pytest.mark.zk
@pytest.mark.redis
def test_who_drops_letters_is_in_the_event_log(
    run: Run, cluster: Settings, redis_url: str, queues: SlotQueues
) -> None:
    reject(queues, *"ab")
    where = ("--zookeeper", hosts(cluster), "--message-queue", redis_url)
    ended(run(*where, "dead-letters", "drop", "--all"))
    ended(run(*where, "dead-letters", "drop", "--all"))  # there are none: it is no event
    with connected(cluster) as connection:
        ((_, event),) = EventLog(connection, Tree(cluster.root)).read(limit=1)
    assert (event.kind, event.text) == ("dead-letters", "2 dead letters dropped")
    assert event.who == user()


@pytest.mark.redis
def test_letters_are_dropped_though_no_zookeeper_answers(
    run: Run, redis_url: str, queues: SlotQueues
) -> None:
    reject(queues, "a")
    where = ("--zookeeper", f"127.0.0.1:{own_port()}/away", "--message-queue", redis_url)
    result = ended(run(*where, "dead-letters", "drop", "--all"))
    assert result.stdout == "1 dead letter dropped\n"
    assert "it is not in the event log: " in result.stderr
    assert queues.dead() == 0
