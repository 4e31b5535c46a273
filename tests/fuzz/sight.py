"""What an operator sees: every place where bad input may be shown, read as an operator reads it."""

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xmlrpc.client import Fault

import psycopg
from kazoo.exceptions import NoNodeError

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.errors import ClusterError
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.redis_typed_keys import UNREADABLE
from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import Grip
from tests.fuzz.judge import complaints
from tests.fuzz.raw_databases import project_tables, text

LETTERS = 10_000
LONGEST = 80  # characters of a token that must be shown: what is longer may be cut short
PAGE = 200
_NONE_OF_OURS = (sqlite3.OperationalError, psycopg.errors.UndefinedColumn)
"""What a table that pyspider did not make answers."""


class Sight:
    """What is seen at one look. Threads: one; each look takes some seconds at most."""

    def __init__(self, grip: Grip) -> None:
        self._grip = grip
        self._cluster = grip.cluster
        self.faults: dict[str, str] = {}  # what could not be looked at, and why
        self.unreadable: Mapping[str, str] = {}
        self.queues: Mapping[str, str] = {}
        self.quarantine: Mapping[str, Any] = {}
        self.overview: Mapping[str, Any] = {}
        self._directory: Directory | None = None
        self._letters: set[str] = set()
        self._bodies: set[bytes] = set()
        self._log = ""
        self._projects: set[str] = set()
        self._tasks: set[str] = set()
        self._failed: set[str] = set()
        self._results: set[str] = set()

    def close(self) -> None:
        """Let the connection go."""
        if self._directory is not None:
            self._directory.stop()

    def look(self) -> None:
        """Look everywhere anew; what fails is noted, for the others still show things."""
        self.faults = {}
        looks = {
            "znodes": self._look_at_znodes,
            "queues": self._look_at_queues,
            "quarantine": self._look_at_quarantine,
            "logs": self._look_at_logs,
            "API": self._look_at_api,
            "tasks": self._look_at_tasks,
            "results": self._look_at_results,
        }
        for name, look in looks.items():
            try:
                look()
            except Exception as error:
                self.faults[name] = f"{type(error).__name__}: {error!s:.200}"

    def place_of(self, entry: Poison, put: Put) -> Place | None:
        """Return the first of an entry's places that shows it."""
        return next((place for place in entry.shown if self._shows(place, put)), None)

    def _shows(self, place: Place, put: Put) -> bool:
        tokens = [token[:LONGEST] for token in put.token.split("|") if token]
        shows: dict[Place, Callable[[str], bool]] = {
            Place.UNREADABLE: lambda token: _begins(self.unreadable, token),
            Place.QUEUE: lambda token: _begins(map(_former_name, self.queues), token),
            Place.QUARANTINE: lambda token: token in self.quarantine,
            Place.LETTER: self._in_letters,
            Place.LOG: lambda token: token in self._log,
            Place.LISTED: lambda token: token in self._projects,
            Place.TASK: lambda token: token in self._tasks,
            Place.FAILED: lambda token: token in self._failed,
            Place.RESULT: lambda token: token in self._results,
        }
        if place is Place.ANSWER:
            return put.refused
        if place is Place.GONE:
            return self._gone(put)
        return place is Place.NOBODY or any(map(shows[place], tokens))

    def _in_letters(self, token: str) -> bool:
        raw = token.encode()
        return any(token in reason for reason in self._letters) or any(
            raw in body for body in self._bodies
        )

    def _gone(self, put: Put) -> bool:
        if put.token.startswith("slot_record:"):
            with contextlib.suppress(Exception):
                return self._grip.redis.get(put.token) != put.data
            return False
        try:
            return bool(self._grip.zk.get(put.token)[0] != put.data)
        except NoNodeError:
            return True

    def _look_at_znodes(self) -> None:
        if self._directory is None:
            self._directory = Directory(self._cluster.settings)
            self._directory.start()
        self.unreadable = self._directory.read().unreadable

    def _look_at_queues(self) -> None:
        queues = connect(self._cluster.redis.url, 0, self._cluster.settings.slots)
        try:
            queues.slot_queues.backlog()
            self.queues = queues.slot_queues.unreadable()
            letters = queues.slot_queues.dead_letters(LETTERS)
        finally:
            queues.close()
        # Those that were seen before count too: the oldest give way to new ones.
        self._letters |= {f"{letter.tag} {letter.reason}" for letter in letters}
        self._bodies |= {letter.body for letter in letters}

    def _look_at_quarantine(self) -> None:
        rpc = self._cluster.rpc(self._grip.rpc_address)
        with contextlib.suppress(Fault), rpc:
            self.quarantine = rpc.quarantine()

    def _look_at_logs(self) -> None:
        texts = {
            name: path.read_text("utf-8", "replace") for name, path in self._cluster.logs().items()
        }
        up = texts.pop("up", "")  # it prints for people: all of it is to be seen
        self._log = "\n".join([up, *map(complaints, texts.values())])

    def _look_at_api(self) -> None:
        self._ask("/events?limit=1000")  # so that the web UI meets those that cannot be read
        self.overview = self._ask("/overview")
        found: set[str] = set()
        while True:
            page = self._ask(f"/projects?limit={PAGE}&offset={len(found)}")
            names = {str(item["name"]) for item in page["items"]} - found
            found |= names
            self._projects = {name[:LONGEST] for name in found}
            if not names or len(found) >= page["total"]:
                return

    def _ask(self, path: str) -> Any:
        status, body = self._grip.http(self._grip.webui.netloc, "GET", f"/api/v1{path}", None, {})
        if status != 200:
            raise ClusterError(f"{path}: {status} {body[:200]!r}")
        return json.loads(body)

    def _look_at_tasks(self) -> None:
        self._tasks, self._failed = set(), set()
        databases = self._grip.databases
        for project, table in project_tables(databases, "task"):
            with contextlib.suppress(*_NONE_OF_OURS):
                statement = f"SELECT taskid, status FROM {table}"  # noqa: S608 - a table's name
                for taskid, status in databases.execute("task", statement):
                    self._tasks.add(text(taskid))
                    if status == FAILED:
                        self._failed |= {project, text(taskid)}

    def _look_at_results(self) -> None:
        databases = self._grip.databases
        self._results = {
            project
            for project, table in project_tables(databases, "result")
            if databases.execute("result", f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608
        }


FAILED = 3  # pyspider's status of a task


def _former_name(key: str) -> str:
    """Return what a key was called before somebody, maybe this suite, put it aside."""
    return key.removeprefix(f"{UNREADABLE}:")


def _begins(found: Iterable[str], token: str) -> bool:
    return any(name.startswith(token) for name in found)
