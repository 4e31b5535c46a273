"""Bad messages: into the slot queues, the inbox, and between the components."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgpack

from pyspider_zk.limits import DEFAULT_SLOTS
from pyspider_zk.projects.slots import slot_of
from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import Grip

SAID = (Place.LETTER, Place.LOG)
USED = (*SAID, Place.TASK, Place.FAILED)  # it can be used after all, and the task's page shows it
NUMBER = 770_077_007  # so that nothing else is taken for it
HUGE = 5_000_000  # bytes
DEEP = 100_000

KINDS = ("newtask_queue", "status_queue")

Body = Callable[[str, str], bytes]  # of a task id and a project


def entries() -> Iterator[Poison]:
    """Yield everything that is put into queues."""
    yield from _raw()
    yield from _tasks()
    yield from _packs()
    yield from _inbox_lists()
    yield from _components()


# --- what is no message -------------------------------------------------------------------------


def _raw_bodies(token: bytes) -> dict[str, bytes]:
    """Return bodies that are no msgpack, or no task; each holds the token if it has room."""
    text = msgpack.packb(token.decode())
    return {
        "nothing": b"",
        "no msgpack": b"\xc1" + token,
        "a message cut short": b"\xdf\xff\xff\xff\xff" + token,
        "a list of 4 billion": b"\xdd\xff\xff\xff\xff" + text,
        "nested 100,000 deep": b"\x91" * DEEP + text,
        "mappings 100,000 deep": b"\x81\xa1a" * DEEP + text,
        "text that is no UTF-8": b"\xa3\xff\xfe\xfd" + text,
        "half a surrogate": b"\x81" + text + b"\xa3\xed\xa0\x80",
        "a foreign extension": b"\xd4\x7f\x01" + text,
        "a number": msgpack.packb(7),
        "null": msgpack.packb(None),
        "a text": text,
        "a list of junk": msgpack.packb([1, None, "x", [token.decode()], {"a": token}]),
        "a list in a list": msgpack.packb([[{"taskid": token.decode()}]]),
        "keys that are no text": msgpack.packb({1: 2, b"x": token, None: 3}),
        "a list as a key": b"\x81\x91\x01" + text,
        "5 MB of zeros": b"\x00" * HUGE,
        "a mapping without anything": msgpack.packb({}),
    }


def _raw() -> Iterator[Poison]:
    for queue in KINDS:
        for kind in _raw_bodies(b""):
            entry = partial(_stream, queue, kind)
            yield Poison("slot queues", f"{queue} holds {kind}", entry, SAID)
            listed = partial(_list, queue, kind)
            yield Poison("inbox", f"{queue} holds {kind}", listed, SAID)
        for what, fields in _FIELDS.items():
            put = partial(_fields, queue, fields)
            yield Poison("slot queues", f"{queue} has an entry {what}", put, SAID)


_FIELDS: dict[str, dict[bytes, bytes]] = {
    "without a body": {b"junk": b"junk"},
    "with the body behind": {b"a": b"1", b"body": b"\xc1"},
    "of a thousand fields": {str(n).encode(): b"x" for n in range(1000)},
    "whose fields are no text": {b"\xff\xfe": b"\x00"},
}


def _stream(queue: str, kind: str, grip: Grip) -> Put:
    token, slot = grip.fresh("raw"), grip.free_slot()
    body = _raw_bodies(token.encode())[kind]
    tag = _add(grip, queue, slot, {b"body": body})
    return Put(token if token.encode() in body[:2000] + body[-200:] else tag)


def _fields(queue: str, fields: dict[bytes, bytes], grip: Grip) -> Put:
    return Put(_add(grip, queue, grip.free_slot(), fields))


def _add(grip: Grip, queue: str, slot: int, fields: dict[bytes, bytes]) -> str:
    tag = grip.redis.xadd(f"{queue}:{slot}", fields)
    grip.redis.sadd(f"{queue}:ready", slot)
    return tag.decode()


def _list(queue: str, kind: str, grip: Grip) -> Put:
    token = grip.fresh("listed")
    body = _raw_bodies(token.encode())[kind]
    grip.redis.rpush(queue, body)
    return Put(token if token.encode() in body[:2000] + body[-200:] else queue)


# --- what looks like a task ---------------------------------------------------------------------

_TASKS: dict[str, dict[str, Any]] = {
    "of a project that is not there": {"project": "nowhere"},
    "of a name with a space": {"project": "no such name"},
    "of an empty name": {"project": ""},
    "of a name of 300 characters": {"project": "x" * 300},
    "of a name with a path": {"project": "../../etc/passwd"},
    "of a name with a quote": {"project": "a`; DROP TABLE projectdb; --"},
    "of a number": {"project": 7},
    "of a list": {"project": ["a"]},
    "without a project": {"project": None},
    "without a URL": {"url": None},
    "with a URL that is a number": {"url": 7},
    "with a URL that is a list": {"url": ["http://a"]},
    "with a URL of 1 MB": {"url": "http://127.0.0.1/" + "x" * 1_000_000},
    "with a URL that is none": {"url": "http://[::1"},
    "with an id that is a number": {"taskid": NUMBER},
    "with an id that is a mapping": {"taskid": {"a": 1}},
    "with an id of bytes": {"taskid": b"\xff\xfe"},
    "with an id of 10,000 characters": {"taskid": "x" * 10_000},
    "with a schedule that is a list": {"schedule": []},
    "with a schedule of text": {"schedule": "now"},
    "without a schedule": {"schedule": None},
    "with a priority of text": {"schedule": {"priority": "high"}},
    "with a priority that is no number": {"schedule": {"priority": float("nan")}},
    "with a priority of 10^18": {"schedule": {"priority": 10**18}},
    "with a time that is no number": {"schedule": {"exetime": float("nan")}},
    "with a time without end": {"schedule": {"exetime": float("inf")}},
    "with an age of text": {"schedule": {"age": "old", "force_update": True}},
    "with an age that is no number": {"schedule": {"age": float("nan"), "force_update": True}},
    "with retries of text": {"schedule": {"retries": "many"}},
    "with retries without end": {"schedule": {"retries": float("inf"), "retried": float("-inf")}},
    "with an itag that is a mapping": {"schedule": {"itag": {"a": [1]}}},
    "with a schedule of bytes": {"schedule": {"itag": b"\xff"}},
    "with nothing to fetch": {"fetch": None},
    "with a fetch that is a list": {"fetch": [1]},
    "with a fetch of text": {"fetch": "all"},
    "with a time-out of text": {"fetch": {"timeout": "long"}},
    "with a save of bytes": {"fetch": {"save": b"\xff\xfe"}},
    "with a process of text": {"process": "callback"},
    "with nothing to process": {"process": None},
    "with a callback that is a number": {"process": {"callback": 7}},
    "with a callback that is not there": {"process": {"callback": "no_such_method"}},
    "with a key that is SQL": {"track`) VALUES (1); DROP TABLE projectdb; --": "x"},
    "with a key of pyspider's table": {"status": 99, "lastcrawltime": "x", "updatetime": []},
    "with a key that is no text": {7: "x"},
    "with a number of 64 bits": {"schedule": {"priority": 2**64 - 1}},
}


def _tasks() -> Iterator[Poison]:
    for what, parts in _TASKS.items():
        yield Poison("slot queues", f"a task {what}", partial(_task, parts, "stream"), USED)
        yield Poison("inbox", f"a task {what}", partial(_task, parts, "list"), USED)
    for where in ("stream", "list"):
        surface = "slot queues" if where == "stream" else "inbox"
        put = partial(_mixed, where)
        yield Poison(surface, "a list of good and bad tasks", put, USED)
    yield Poison("slot queues", "a task of another slot", _astray, USED)
    yield Poison("slot queues", "a list of 20,000 tasks of nobody", _crowd, USED)


def _victim(grip: Grip) -> str:
    """Return a project that runs and that nobody else uses."""
    name = grip.fresh_project("victim")
    grip.project_row(name)
    return name


def _body(grip: Grip, parts: dict[Any, Any]) -> tuple[str, dict[Any, Any]]:
    project, token = _victim(grip), grip.fresh("task")
    task = {"taskid": token, "project": project, "url": f"data:,{token}"}
    return token, {**task, "process": {"callback": "on_start"}, **parts}


def _task(parts: dict[Any, Any], where: str, grip: Grip) -> Put:
    token, body = _body(grip, parts)
    known_by = f"{token}|{NUMBER}" if body["taskid"] == NUMBER else token
    if isinstance(body["project"], str) and body["project"].startswith("no"):
        known_by += f"|{body['project']}"  # it is said once which project there is not
    return _send(grip, "newtask_queue", where, known_by, body)


def _send(grip: Grip, queue: str, where: str, token: str, body: Any, project: str = "") -> Put:
    """Put a message into the queue of its project's slot, or into the inbox."""
    raw = msgpack.packb(body)
    if where == "list":
        grip.redis.rpush(queue, raw)
        return Put(token)
    first = body[0] if isinstance(body, list) else body
    name = project or first.get("project")
    known = isinstance(name, str) and name.isascii()
    slot = slot_of(name, DEFAULT_SLOTS) if known else grip.free_slot()
    _add(grip, queue, slot, {b"body": raw})
    return Put(token)


def _mixed(where: str, grip: Grip) -> Put:
    token, good = _body(grip, {})
    bad = {**good, "taskid": f"{token}_bad", "schedule": "junk"}
    return _send(grip, "newtask_queue", where, f"{token}_bad", [good, bad, None, 7])


def _astray(grip: Grip) -> Put:
    token, body = _body(grip, {})
    _add(grip, "newtask_queue", grip.free_slot(), {b"body": msgpack.packb(body)})
    return Put(token)


def _crowd(grip: Grip) -> Put:
    name = grip.fresh("nobody")
    tasks = [{"taskid": f"t{n}", "project": name, "url": "data:,"} for n in range(20_000)]
    return _send(grip, "newtask_queue", "stream", name, tasks)


# --- what looks like a status pack --------------------------------------------------------------

_PACKS: dict[str, dict[str, Any]] = {
    "without a track": {},
    "whose track is null": {"track": None},
    "whose track is a list": {"track": [1]},
    "whose track is text": {"track": "ok"},
    "without a process": {"track": {"fetch": {"ok": True}}},
    "whose process is text": {"track": {"process": "ok", "fetch": "ok"}},
    "whose process is null": {"track": {"process": None, "fetch": None}},
    "whose ok is a mapping": {"track": {"process": {"ok": {}}, "fetch": {"ok": {}}}},
    "with times of text": {"track": {"process": {"ok": True, "time": "x"}, "fetch": {"time": "x"}}},
    "with times that are no numbers": {
        "track": {"process": {"ok": True, "time": float("nan")}, "fetch": {"time": float("nan")}}
    },
    "without a task id": {"taskid": None, "track": {"process": {"ok": True}}},
    "without a URL": {"url": None, "track": {"process": {"ok": True}, "fetch": {"ok": True}}},
    "of a project that is not there": {"project": "nowhere", "track": {"process": {"ok": True}}},
    "of an illegal name": {"project": "a b/c", "track": {"process": {"ok": True}}},
    "of a task that was never sent": {"track": {"process": {"ok": True}, "fetch": {"ok": True}}},
    "with a schedule of junk": {
        "schedule": {"retried": "x", "retries": []},
        "track": {"process": {"ok": False}, "fetch": {"ok": False}},
    },
    "with logs of 5 MB": {"track": {"process": {"ok": True, "logs": "x" * HUGE}, "fetch": {}}},
    "that follows in thousands": {"track": {"process": {"ok": True, "follows": -(10**18)}}},
}

_INFO = {"taskid": "_on_get_info", "url": "data:,_on_get_info"}
_INFOS: dict[str, Any] = {
    "nothing": None,
    "text": "min_tick",
    "a list": [1, 2],
    "ticks of text": {"min_tick": "often"},
    "ticks that are no number": {"min_tick": float("nan")},
    "ticks below zero": {"min_tick": -5},
    "ticks without end": {"min_tick": float("inf")},
    "delays of text": {"retry_delay": "long"},
    "delays by text": {"retry_delay": {"": "x", "a": None}},
    "a configuration that is a list": {"crawl_config": [1]},
    "a configuration of junk": {"crawl_config": {"fetch": 7, "schedule": [], "itag": {}}},
}


def _packs() -> Iterator[Poison]:
    shown = (*USED, Place.QUARANTINE)
    for what, parts in _PACKS.items():
        yield Poison("slot queues", f"a status {what}", partial(_pack, parts, "stream"), shown)
        yield Poison("inbox", f"a status {what}", partial(_pack, parts, "list"), shown)
    for what, save in _INFOS.items():
        put = partial(_info, save)
        told = (*shown, Place.LISTED)  # what is of no use is left out; the project runs on
        yield Poison("slot queues", f"a script tells {what} of itself", put, told)


def _pack(parts: dict[str, Any], where: str, grip: Grip) -> Put:
    token, body = _body(grip, parts)
    if not parts.get("url", ""):
        body.pop("url", None)
    if body["taskid"] is None:
        token = body["project"]  # nothing else in it tells it from others
    return _send(grip, "status_queue", where, token, body)


def _info(save: Any, grip: Grip) -> Put:
    project = _victim(grip)
    track = {"process": {"ok": True}, "fetch": {"ok": True}, "save": save}
    _send(grip, "status_queue", "stream", project, {**_INFO, "project": project, "track": track})
    return Put(project)


# --- floods -------------------------------------------------------------------------------------


def _inbox_lists() -> Iterator[Poison]:
    for queue in KINDS:
        put = partial(_flood, queue)
        yield Poison("inbox", f"2,000 pieces of junk in {queue}", put, SAID)


def _flood(queue: str, grip: Grip) -> Put:
    token = grip.fresh("flood")
    grip.redis.rpush(queue, *(b"\xc1" + f"{token}-{n}".encode() for n in range(2000)))
    return Put(token)


# --- between the components ---------------------------------------------------------------------

_RAW_KINDS = tuple(_raw_bodies(b""))
_RESPONSE = {"status_code": 200, "url": "data:,x", "content": "", "headers": {}, "time": 0}

_PAIRS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a task alone": lambda task: task,
    "three parts": lambda task: [task, _RESPONSE, 7],
    "a response of text": lambda task: [task, "ok"],
    "no response": lambda task: [task, None],
    "a response without anything": lambda task: [task, {}],
    "a status of text": lambda task: [task, {**_RESPONSE, "status_code": "fine"}],
    "headers that are a list": lambda task: [task, {**_RESPONSE, "headers": [1]}],
    "content that is a number": lambda task: [task, {**_RESPONSE, "content": 7}],
    "a time of text": lambda task: [task, {**_RESPONSE, "time": "long"}],
    "cookies of text": lambda task: [task, {**_RESPONSE, "cookies": "x"}],
    "a save without end": lambda task: [task, {**_RESPONSE, "save": float("inf")}],
    "no task": lambda _: [None, _RESPONSE],
    "a task that is a list": lambda task: [[task], _RESPONSE],
    "a task without a project": lambda task: [{**task, "project": None}, _RESPONSE],
    "a task of a foreign project": lambda task: [{**task, "project": "nowhere"}, _RESPONSE],
    "a task with an illegal name": lambda task: [{**task, "project": "a b`c"}, _RESPONSE],
    "a task without an id": lambda task: [{**task, "taskid": None}, _RESPONSE],
    "a process of text": lambda task: [{**task, "process": "x"}, _RESPONSE],
    "a callback that is not there": lambda task: [
        {**task, "process": {"callback": "none"}},
        _RESPONSE,
    ],
    "a response of 5 MB": lambda task: [task, {**_RESPONSE, "content": "x" * HUGE}],
}

_FETCHES: dict[str, dict[str, Any]] = {
    **{what: parts for what, parts in _TASKS.items() if "schedule" not in parts},
    "with a method that is none": {"fetch": {"method": "GE T\r\nX: y"}},
    "with a method that is a number": {"fetch": {"method": 7}},
    "with headers that are a list": {"fetch": {"headers": ["x"]}},
    "with headers of two lines": {"fetch": {"headers": {"X-A": "b\r\nEvil: 1"}}},
    "with cookies of text": {"fetch": {"cookies": "x"}},
    "with a proxy that is none": {"url": "http://127.0.0.1:1/", "fetch": {"proxy": "http://[::1"}},
    "with a proxy that is a number": {"url": "http://127.0.0.1:1/", "fetch": {"proxy": 7}},
    "with data that is a mapping": {"url": "http://127.0.0.1:1/", "fetch": {"data": {"a": 1}}},
    "with a time-out that is no number": {
        "url": "http://127.0.0.1:1/",
        "fetch": {"timeout": float("nan"), "connect_timeout": float("nan")},
    },
    "with a time-out below zero": {"url": "http://127.0.0.1:1/", "fetch": {"timeout": -1}},
    "of a scheme that is none": {"url": "gopher://127.0.0.1/"},
    "of a port that is none": {"url": "http://127.0.0.1:99999/"},
    "of a host of dots": {"url": "http://" + "." * 300 + "/"},
    "of a host that is no text": {"url": "http://\ud7ff\uffff/"},
    "with a fetch type that is not there": {"fetch": {"fetch_type": "telepathy"}},
    "for a browser that is not there": {"fetch": {"fetch_type": "js"}, "url": "http://127.0.0.1:1"},
}

_RESULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a task alone": lambda task: task,
    "three parts": lambda task: [task, {}, 7],
    "no task": lambda _: [None, {"a": 1}],
    "a task that is a list": lambda task: [[task], {"a": 1}],
    "a task without a project": lambda task: [{**task, "project": None}, {"a": 1}],
    "a task with an illegal name": lambda task: [{**task, "project": "a b`c"}, {"a": 1}],
    "a task without an id": lambda task: [{"project": task["project"], "url": "x"}, {"a": 1}],
    "an id that is a list": lambda task: [{**task, "taskid": ["a"]}, {"a": 1}],
    "an address that is a mapping": lambda task: [{**task, "url": {"a": 1}}, {"a": 1}],
    "a result of bytes": lambda task: [task, {"a": b"\xff\xfe"}],
    "a result with bytes for a key": lambda task: [task, {b"\xff": 1}],
    "a result that is no number": lambda task: [task, {"a": float("nan")}],
    "a result that is a number": lambda task: [task, 7],
    "a result of 5 MB": lambda task: [task, {"a": "x" * HUGE}],
}
_STORED = (Place.LOG, Place.RESULT)


def _components() -> Iterator[Poison]:
    for queue in ("scheduler2fetcher", "fetcher2processor", "processor2result"):
        for kind in _RAW_KINDS:
            put = partial(_between_raw, queue, kind)
            yield Poison("components", f"{queue} holds {kind}", put, (Place.LOG,))
    for what, parts in _FETCHES.items():
        put = partial(_to_fetcher, parts)
        yield Poison("components", f"the fetcher gets a task {what}", put, USED)
    for what, pair in _PAIRS.items():
        put = partial(_to_worker, "fetcher2processor", pair)
        yield Poison("components", f"the processor gets {what}", put, USED)
    for what, pair in _RESULTS.items():
        put = partial(_to_worker, "processor2result", pair)
        yield Poison("components", f"the result worker gets {what}", put, _STORED)


def _between_raw(queue: str, kind: str, grip: Grip) -> Put:
    token = grip.fresh("between")
    grip.redis.rpush(queue, _raw_bodies(token.encode())[kind])
    return Put(f"{token}|{queue}")


def _to_fetcher(parts: dict[str, Any], grip: Grip) -> Put:
    token, body = _body(grip, parts)
    grip.redis.rpush("scheduler2fetcher", msgpack.packb(body))
    return Put(f"{token}|{body.get('project')}|scheduler2fetcher")


def _to_worker(queue: str, pair: Callable[[dict[str, Any]], Any], grip: Grip) -> Put:
    token, body = _body(grip, {})
    body |= {"schedule": {}, "fetch": {}}
    grip.redis.rpush(queue, msgpack.packb(pair(body)))
    return Put(f"{token}|{body['project']}|{queue}")
