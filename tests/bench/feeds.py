"""What stands in for pages, fetchers and processors: links and packs, given in bulk."""

import random
from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import Any, NamedTuple, Protocol

import msgpack
import redis

from pyspider_zk.config import Settings
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind

Task = dict[str, Any]

AGE = 10 * 24 * 3600  # of pyspider's sample script
SETTINGS = {"min_tick": 0, "retry_delay": {}, "crawl_config": {}}


class Links:
    """Links of pages: some to new pages, the others to pages that were told of before.

    Args:
        projects: whose pages.
        count: links of a page.
        old: of these, how many lead to what was told of before.
        seed: of the choice among those.

    Attributes:
        left: how many new pages there are still to tell of; afterwards all links are old.
    """

    def __init__(self, projects: list[str], count: int = 1, old: int = 0, seed: int = 1) -> None:
        self.projects = projects
        self.left = 0
        self._told = dict.fromkeys(projects, 0)
        self._count, self._new = count, count - old
        self._random = random.Random(seed)  # noqa: S311 - no secret

    @property
    def told(self) -> int:
        return sum(self._told.values())

    def new(self, project: str) -> Task:
        """Return a task of a page that nobody was told of."""
        self._told[project] += 1
        self.left -= 1
        return _task(project, self._told[project])

    def old(self, project: str) -> Task:
        """Return a task of a page that was told of."""
        return _task(project, self._random.randint(1, self._told[project]))

    def on_page(self, project: str) -> list[Task]:
        new = min(self._new, self.left)
        old = self._count - self._new
        return [
            *(self.old(project) for _ in range(old)),
            *(self.new(project) for _ in range(new)),
        ]


def _task(project: str, number: int) -> Task:
    url = f"http://{project}.example/page/{number}"
    return {
        "taskid": md5(url.encode()).hexdigest(),  # noqa: S324 - pyspider's way
        "project": project,
        "url": url,
        "schedule": {"age": AGE},
        "fetch": {},
        "process": {"callback": "page"},
    }


def is_script_call(task: Task) -> bool:
    """Return whether a task only calls a script (``_on_get_info``, ``on_finished``)."""
    return str(task["url"]).startswith("data:")


def pack_of(task: Task, follows: int) -> Task:
    """Return the status pack of a task that was fetched and processed well."""
    save = SETTINGS if task["taskid"] == "_on_get_info" else None
    pack = {
        **{key: task[key] for key in ("taskid", "project", "url")},
        "track": {
            "fetch": {
                "ok": True,
                "redirect_url": None,
                "time": 0.01,
                "error": None,
                "status_code": 200,
                "encoding": "utf-8",
                "headers": {},
                "content": None,
            },
            "process": {
                "ok": True,
                "time": 0.001,
                "follows": follows,
                "result": None,
                "logs": "",
                "exception": None,
            },
            "save": save,
        },
    }
    return {**pack, "schedule": task["schedule"]} if "schedule" in task else pack


SENT = "scheduler2fetcher"
AT_ONCE = 200  # pages that one call publishes


class FeedPage(NamedTuple):
    """What a processor publishes of one task: the links, and the status pack if there was one."""

    links: Sequence[Task]
    pack: Task | None = None


class Feed(Protocol):
    """The queues of one contender."""

    def answer(self, pages: Sequence[FeedPage]) -> None:
        """Publish what processors found."""

    def unapplied(self) -> int:
        """Return how many messages the schedulers have not taken, or not acknowledged."""

    def close(self) -> None:
        """Let go of all connections."""


class Dispatched:
    """The queue from schedulers to fetchers, which all contenders share."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)

    def take(self, most: int) -> list[Task]:
        """Return at most so many tasks that were sent. Never blocks."""
        return [msgpack.unpackb(raw) for raw in self._redis.lpop(SENT, most) or ()]

    def wait(self, seconds: float) -> Task | None:
        """Return the next task that is sent, as soon as it is; None if there is none in time."""
        found: Any = self._redis.blpop([SENT], seconds)
        return None if found is None else msgpack.unpackb(found[1])

    def close(self) -> None:
        """Let go of the connection."""
        self._redis.close()


class StockFeed:
    """pyspider's own queues, lists in Redis."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)

    def answer(self, pages: Sequence[FeedPage]) -> None:
        """Publish the links of each page as one list, then the packs."""
        links = [msgpack.packb(list(page.links)) for page in pages if page.links]
        packs = [msgpack.packb(page.pack) for page in pages if page.pack]
        for name, bodies in (("newtask_queue", links), ("status_queue", packs)):
            if bodies:
                self._redis.rpush(name, *bodies)

    def unapplied(self) -> int:
        """Return how many messages nobody has taken."""
        lengths: list[Any] = [self._redis.llen(name) for name in ("newtask_queue", "status_queue")]
        return sum(lengths)

    def close(self) -> None:
        """Let go of the connection."""
        self._redis.close()


class SlotFeed:
    """The slot queues of a cluster."""

    def __init__(self, url: str) -> None:
        self._slots = Settings().slots
        self._queues = connect(url, 0, self._slots).slot_queues

    def answer(self, pages: Sequence[FeedPage]) -> None:
        """Publish as a processor does: the links of a page, then its pack, in one transaction."""
        for begin in range(0, len(pages), AT_ONCE):
            some = pages[begin : begin + AT_ONCE]
            self._queues.publish([message for page in some for message in self._messages(page)])

    def _messages(self, page: FeedPage) -> Iterable[Message]:
        for link in page.links:
            yield Message(QueueKind.NEWTASK, slot_of(link["project"], self._slots), link)
        if page.pack:
            yield Message(QueueKind.STATUS, slot_of(page.pack["project"], self._slots), page.pack)

    def unapplied(self) -> int:
        """Return how many messages are unread or not acknowledged."""
        return sum(self._queues.lengths().values())

    def close(self) -> None:
        """Let go of the connections."""
        self._queues.close()
