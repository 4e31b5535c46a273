"""What leaves a script is stored by one rule, or fails its task and names the field at fault."""

import datetime
import decimal
import enum
import json
import uuid
from collections import OrderedDict, deque
from pathlib import PurePosixPath
from typing import Any

import pytest
import umsgpack  # type: ignore[import-untyped]

from tests.patches.test_patched_scripts import build

UTC = datetime.UTC
DAY = datetime.date(2020, 1, 2)
NOON = datetime.datetime(2020, 1, 2, 12, 30, 0, 5, tzinfo=UTC)


class StoredColour(enum.Enum):
    RED = "red"


KEPT = [None, True, -1, 2**63 - 1, 1.5, "é\0", [], {}, [1, [2]], {"a": {"b": None}}, {7: "seven"}]
CHANGED = [
    (DAY, "2020-01-02"),
    (NOON, "2020-01-02T12:30:00.000005+00:00"),
    (NOON.replace(tzinfo=None, microsecond=0), "2020-01-02T12:30:00"),
    (NOON.time(), "12:30:00.000005"),
    (datetime.timedelta(minutes=1.5), 90.0),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("/a"), "/a"),
    (StoredColour.RED, "red"),
    ((1, (2,)), [1, [2]]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset("ba"), ["a", "b"]),
    ({"b", 2, None, (1,)}, [2, "b", None, [1]]),
    (deque([1]), [1]),
    (range(2), [0, 1]),
    ({"a": 1}.keys(), ["a"]),
    (OrderedDict(a=DAY), {"a": "2020-01-02"}),
    (b"text \xc3\xa9", "text é"),
    (bytearray(b"\xff\xfe"), "[BASE64-DATA]//4=[/BASE64-DATA]"),
    ({DAY: 1, b"k": 2, uuid.UUID(int=0): 3}, {"2020-01-02": 1, "k": 2, str(uuid.UUID(int=0)): 3}),
]
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
REFUSED = [
    (object(), "it is a object"),
    (lambda: 0, "it is a function"),
    (iter([1]), "it is a list_iterator"),
    (1j, "it is a complex"),
    ({(1, 2): 3}, "its key is a tuple"),
    ({frozenset(): 3}, "its key is a frozenset"),
    ({b"a": 1, "a": 2}, "another key"),
    (2**63, "more than 64 bits"),
    ("\ud800", "half of a character"),
    (CYCLE, "nested deeper"),
]

SCRIPT = """
class Handler(BaseHandler):
    def page(self, response):
        return make()

    def several(self, response):
        yield {'first': 1}
        yield make()

    def keep(self, response):
        self.save['kept'] = make()

    def keep_and_fail(self, response):
        self.save['kept'] = make()
        1 / 0

    def ask(self, response):
        self.crawl('http://x/', callback=self.page, save={'deep': [make()]})

    def own(self, response):
        return make()
"""


class Sent:
    """A script in a processor.

    Attributes:
        results: the results that it has sent.
    """

    def __init__(self, value: object) -> None:
        self.results: list[Any] = []
        built = build(f"make = None\n{SCRIPT}")
        built["module"].make = lambda: value
        built["instance"].__env__["result_queue"] = self
        self._built = built

    def put(self, pair: tuple[Any, Any]) -> None:
        self.results.append(pair[1])

    def run(self, callback: str) -> Any:
        """Run a callback of a task that has saved 1 before."""
        task = {"project": "demo", "taskid": "t", "url": "http://x/", "track": {"save": {"n": 1}}}
        page = {"status_code": 200, "url": "http://x/", "content": b""}
        process = {"process": {"callback": callback}}
        return self._built["instance"].run_task(self._built["module"], {**task, **process}, page)


@pytest.mark.parametrize(("value", "stored"), [*((each, each) for each in KEPT), *CHANGED])
def test_results_saves_and_tasks_are_stored_by_one_rule(value: object, stored: object) -> None:
    sent = Sent(value)

    assert sent.run("page").exception is None
    saved, asked = sent.run("keep"), sent.run("ask")

    assert sent.results == ([stored] if value else [])
    assert saved.save == {"n": 1, "kept": stored}
    assert [follow["fetch"]["save"] for follow in asked.follows] == [{"deep": [stored]}]
    json.dumps(umsgpack.unpackb(umsgpack.packb([saved.save, asked.follows, sent.results])))


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_what_cannot_be_stored_fails_its_task_and_is_named(value: object, why: str) -> None:
    for callback, field in (
        ("page", "result"),
        ("several", "result"),
        ("keep", "self.save['kept']"),
        ("ask", "save['deep'][0]"),
    ):
        sent = Sent(value)
        ended = sent.run(callback)
        assert isinstance(ended.exception, TypeError)
        assert field in str(ended.exception)
        assert why in str(ended.exception)
        assert why in ended.logstr()
        assert ended.save == {"n": 1}
        assert ended.follows == []
        assert sent.results == ([{"first": 1}] if callback == "several" else [])


def test_the_field_is_named_however_deep_it_is() -> None:
    ended = Sent({"items": [{"ok": 1}, {"when": object()}]}).run("page")
    assert str(ended.exception).startswith("result['items'][1]['when'] cannot be stored: it is a ")


def test_what_a_failing_script_saved_is_stored_by_the_same_rule() -> None:
    ended = Sent({2, 1}).run("keep_and_fail")
    assert isinstance(ended.exception, ZeroDivisionError)
    assert ended.save == {"n": 1, "kept": [1, 2]}


def test_a_script_with_a_hook_of_its_own_gets_its_results_as_they_are() -> None:
    sent = Sent(NOON)
    got: list[Any] = []
    instance = sent._built["instance"]
    instance.on_result = got.append
    assert sent.run("own").exception is None
    assert got == [NOON]


@pytest.mark.parametrize("name", ["exetime", "age", "priority", "retries"])
@pytest.mark.parametrize("value", [NOON, "5", float("nan"), decimal.Decimal(1)])
def test_a_number_of_a_schedule_must_be_one(name: str, value: object) -> None:
    built = build(
        "class Handler(BaseHandler):\n"
        "    def page(self, r):\n"
        f"        self.crawl('http://x/', callback=self.page, {name}=value)\n"
    )
    built["module"].value = value
    task = {"project": "demo", "taskid": "t", "url": "http://x/", "process": {"callback": "page"}}
    ended = built["instance"].run_task(
        built["module"], task, {"status_code": 200, "url": "http://x/"}
    )
    assert f"{name} must be a number" in str(ended.exception)
    assert ended.follows == []


def test_an_itag_stays_the_text_that_it_was() -> None:
    from pyspider.libs.utils import unicode_obj

    built = build(
        "class Handler(BaseHandler):\n"
        "    def page(self, r):\n"
        "        self.crawl('http://x/', callback=self.page, itag=value)\n"
    )
    built["module"].value = NOON
    task = {"project": "demo", "taskid": "t", "url": "http://x/", "process": {"callback": "page"}}
    ended = built["instance"].run_task(
        built["module"], task, {"status_code": 200, "url": "http://x/"}
    )
    assert unicode_obj(ended.follows)[0]["schedule"] == {"itag": str(NOON)}
