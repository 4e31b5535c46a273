"""What stands in for fetchers and processors: takes what was sent, and answers, in bulk."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgpack
import redis

from pyspider_zk.config import Settings
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from tests.bench.links import Task

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
