"""Messages in Redis, mutated from those of a running crawl."""

import codecs
import re
import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import urlsplit

import redis

from pyspider_zk.limits import DEFAULT_SLOTS
from tests.fuzz.inputs import FUZZED, Answered, Input, Surface
from tests.fuzz.mutate import mutate_bytes, mutate_message, pick

NAME = "queues"
BETWEEN = ("scheduler2fetcher", "fetcher2processor", "processor2result")
SLOT_QUEUES = ("newtask_queue", "status_queue")

FEWEST = 5  # messages of each kind that are waited for

Corpus = Mapping[str, Sequence[bytes]]
"""Messages and records by the key that they stood in, without the number of the slot."""

_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_WRITES = {b"rpush": 2, b"xadd": -1}
"""Commands that write a message, and where it stands among their words."""


def listen(url: str, seconds: float, most: int = 60) -> dict[str, list[bytes]]:
    """Return what is written about the fuzzed projects meanwhile, as Redis tells it.

    Blocks until there is something of every kind, and so many seconds at most.

    Args:
        url: of the Redis.
        seconds: how long.
        most: messages of a kind.
    """
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    wanted = {*BETWEEN, *SLOT_QUEUES}
    parts = urlsplit(url)
    end = time.monotonic() + seconds
    with socket.create_connection((parts.hostname, parts.port), seconds) as link:
        link.sendall(b"MONITOR\r\n")
        for line in link.makefile("rb"):
            _note(line, found, most)
            done = wanted <= set(found) and min(map(len, found.values())) >= FEWEST
            if done or time.monotonic() > end:
                return dict(sorted(found.items()))
    return dict(sorted(found.items()))


def _note(line: bytes, found: defaultdict[str, list[bytes]], most: int) -> None:
    words = [codecs.escape_decode(word)[0] for word in _WORD.findall(line)]
    if len(words) < 3 or (place := _WRITES.get(words[0].lower())) is None:
        return
    kind = words[1].decode("utf-8", "replace").partition(":")[0]
    message = bytes(words[place])
    if FUZZED.encode() in message and len(found[kind]) < most:
        found[kind].append(message)


def slot_records(url: str) -> list[bytes]:
    """Return the slot records that there are."""
    with redis.Redis.from_url(url) as client:
        return [raw for key in sorted(client.keys("slot_record:*")) if (raw := client.get(key))]


def surface(url: str, corpus: Corpus, slots: Sequence[int]) -> Surface:
    """Return the surface of a Redis.

    Args:
        url: where it is.
        corpus: what was seen there.
        slots: those of which records may be spoilt: what stands there may be lost.
    """
    client = redis.Redis.from_url(url)

    def draw(chance: Random) -> Input:
        kind = pick(chance, [*BETWEEN, *SLOT_QUEUES, *SLOT_QUEUES, *_INBOX, *_OTHERS])
        return _drawn(kind, corpus, slots, chance)

    def send(what: Input) -> Answered:
        try:
            return Answered(f"{what.parts['how']} {_put(client, what.parts)}")
        except redis.ResponseError as error:
            return Answered(f"{what.parts['how']} refused: {str(error).split()[0]}")

    return Surface(NAME, draw, send, client.close)


_INBOX = ("inbox newtask_queue", "inbox status_queue")
_OTHERS = ("slot_record", "ready", "fields")


def _drawn(kind: str, corpus: Corpus, slots: Sequence[int], chance: Random) -> Input:
    if kind in BETWEEN:
        return _input(kind, "rpush", _message(corpus, kind, chance))
    if kind in _INBOX:
        queue = kind.removeprefix("inbox ")
        return _input(queue, "rpush", _message(corpus, queue, chance))
    if kind == "slot_record":
        data = mutate_message(pick(chance, corpus[kind]), chance)
        return _input(f"slot_record:{pick(chance, slots)}", "set", data)
    queue, slot = pick(chance, SLOT_QUEUES), chance.randrange(DEFAULT_SLOTS)
    if kind == "ready":
        return _input(f"{queue}:ready", "sadd", mutate_bytes(str(slot).encode(), chance))
    if kind == "fields":
        return _input(f"{queue}:{slot}", "xadd", _message(corpus, queue, chance), "bodyx")
    return _input(f"{kind}:{slot}", "xadd", _message(corpus, kind, chance), "body")


def _message(corpus: Corpus, kind: str, chance: Random) -> bytes:
    return mutate_message(pick(chance, corpus[kind]), chance)


def _input(key: str, how: str, data: bytes, name: str = "") -> Input:
    kind = re.sub(r"\d+", "N", key)
    return Input(NAME, kind, {"key": key, "how": how, "data": data, "name": name})


def _put(client: Any, parts: Mapping[str, Any]) -> str:
    key, data = parts["key"], parts["data"]
    match parts["how"]:
        case "rpush":
            client.rpush(key, data)
        case "set":
            client.set(key, data)
        case "sadd":
            client.sadd(key, data)
        case _:
            client.xadd(key, {parts["name"].encode(): data})
            client.sadd(f"{key.partition(':')[0]}:ready", key.partition(":")[2])
    return re.sub(r"\d+", "N", key)
