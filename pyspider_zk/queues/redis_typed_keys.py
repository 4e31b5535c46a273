"""Work on keys of known types, and scripts; wrong-type keys in the place of ours are set aside.

A key of another type makes every command on it fail, whoever sends it, for as long as it is there:
one ``SET newtask_queue:23 x`` would stop a slot, and with it each processor that has a message for
that slot. So a process that meets such a key renames it to ``unreadable:<key>:<number>``, where an
operator can examine it, and goes on. The hash ``unreadable`` lists what was found, so that each
process can report it, until the renamed key is deleted or renamed back.

A write to several keys is one script of the folder ``lua``, which checks all of them before it
writes: a wrong-type key is found before anything is done. What adds comes before what deletes: a
Redis out of memory refuses the first, and is left as it was.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from uuid import uuid4

import redis.exceptions

from pyspider_zk.queues.redis_link import RedisLink

UNREADABLE = "unreadable"
QUOTED = 300  # characters of a foreign name or sentence in a report
MOST = 1000  # keys that are reported

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Types = Mapping[str, str]
"""Keys, and the type that each of them must have: list, set, hash or stream."""

_IN_THE_WAY = ("WRONGTYPE", "exhausted the last possible ID")


def script(name: str) -> str:
    """Return the text of a script, without the lines of comment: it is sent with each call."""
    lines = (Path(__file__).parent / "lua" / f"{name}.lua").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("--"))


_SET_ASIDE, _SET_VALUE_ASIDE = script("set_aside"), script("set_value_aside")


class TypedKeys:
    """The way to a Redis for all that work on typed keys. Threads: any.

    Args:
        link: where.
    """

    def __init__(self, link: RedisLink) -> None:
        self.link = link
        self._lock = Lock()
        self._reported: dict[str, str] = {}

    def run(self, types: Types, work: Callable[[Any], Answer]) -> Answer:
        """Do a piece of work; if a wrong-type key is in the way, rename it and repeat the work.

        Args:
            work: takes redis-py's client, and must have done nothing that matters when it meets
                such a key.

        Raises:
            Unavailable: Redis does not answer, or refuses.
        """
        with self.link.client() as client:
            try:
                return work(client)
            except redis.exceptions.ResponseError as error:
                if not any(each in str(error) for each in _IN_THE_WAY):
                    raise
            self._set_aside(client, types)
            return work(client)

    def eval(self, script: str, types: Types, *arguments: Any) -> Any:
        """Run a script on the keys of ``types``, in their order; see `run`."""
        return self.run(types, lambda it: it.eval(script, len(types), *types, *arguments))

    def pipelined(self, types: Types, fill: Callable[[Any], object]) -> list[Any]:
        """Send the commands that ``fill`` puts into a pipeline; return the replies; see `run`."""

        def work(client: Any) -> list[Any]:
            pipe = client.pipeline(transaction=False)
            fill(pipe)
            return list(pipe.execute())

        return self.run(types, work)

    def move(self, key: str, value: bytes, why: str) -> None:
        """Rename a key whose value cannot be read, unless it was changed."""
        name = f"{UNREADABLE}:{key}:{uuid4().hex[:8]}"
        with self.link.client() as client:
            moved: Any = client.eval(_SET_VALUE_ASIDE, 3, key, name, UNREADABLE, value, why)
        if moved:
            self._report({name: why})

    def look(self) -> None:
        """Read which keys all processes renamed and nobody deleted; two round trips if any."""
        found = self.run({UNREADABLE: "hash"}, lambda it: it.hgetall(UNREADABLE))
        reported = dict(list(found.items())[:MOST])
        there = self.pipelined({}, lambda pipe: [pipe.exists(name) for name in reported])
        gone = [name for name, is_there in zip(reported, there, strict=True) if not is_there]
        if gone:
            with self.link.client() as client:
                client.hdel(UNREADABLE, *gone)
        with self._lock:
            self._reported = {
                _text(name): _in_words(_text(name), _text(why))
                for name, why in reported.items()
                if name not in gone
            }

    def reported(self) -> Mapping[str, str]:
        """Return each renamed key and what is wrong with it, as last read; no I/O."""
        with self._lock:
            return dict(self._reported)

    def _set_aside(self, client: Any, types: Types) -> None:
        keys = [UNREADABLE, *types]
        about = [uuid4().hex[:8], MOST, *types.values()]
        names = [_text(each) for each in client.eval(_SET_ASIDE, len(keys), *keys, *about)]
        self._report(dict(zip(names[::2], names[1::2], strict=True)))

    def _report(self, moved: Mapping[str, str]) -> None:
        reported = {name: _in_words(name, why) for name, why in moved.items()}
        for name, words in reported.items():
            log.error("%s: %s", name, words)
        with self._lock:
            self._reported = dict(list({**self._reported, **reported}.items())[-MOST:])


def _in_words(name: str, why: str) -> str:
    return f"{why}; it was moved here: look at it, then redis-cli DEL {name}"


def _text(name: bytes) -> str:
    return name.decode(errors="replace")[:QUOTED]
