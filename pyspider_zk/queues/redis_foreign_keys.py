"""Foreign keys in the place of ours: renamed, kept, and reported by every process.

A key of another type makes every command on it fail, whoever sends it, for as long as it is there:
one ``SET newtask_queue:23 x`` would stop a slot, and with it each processor that has a message for
that slot. So a process that meets such a key renames it to ``unreadable:<key>:<number>``, where an
operator can examine it, and goes on. The hash ``unreadable`` lists what was found, so that each
process can report it, until the renamed key is deleted or renamed back.
"""

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar
from uuid import uuid4

import redis
import redis.exceptions

from pyspider_zk.queues.redis_link import RedisLink

UNREADABLE = "unreadable"
QUOTED = 300  # characters of a foreign name or sentence in a report
MOST = 1000  # keys that are reported

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Types = Callable[[], Mapping[str, str]]

_IN_THE_WAY = ("WRONGTYPE", "exhausted the last possible ID")

# KEYS: the hash, key...   ARGV: number, most, type of each key
# A stream whose last number is the highest there is takes no entry any more: its entries get new
# numbers.
_CLEAR = """
local moved = {}
local function is_used_up(key)
  local about = redis.call('XINFO', 'STREAM', key)
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then
      return about[i + 1] == '18446744073709551615-18446744073709551615'
    end
  end
end
for i = 2, #KEYS do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= ARGV[i + 1] then
    local name = 'unreadable:' .. KEYS[i] .. ':' .. ARGV[1]
    local why = KEYS[i] .. ' was a ' .. found .. ' where a ' .. ARGV[i + 1] .. ' belongs'
    redis.call('RENAME', KEYS[i], name)
    moved[#moved + 1] = name
    moved[#moved + 1] = why
  elseif found == 'stream' and is_used_up(KEYS[i]) then
    local entries = redis.call('XRANGE', KEYS[i], '-', '+')
    redis.call('DEL', KEYS[i])
    for _, entry in ipairs(entries) do redis.call('XADD', KEYS[i], '*', unpack(entry[2])) end
  end
end
local known = redis.pcall('HLEN', KEYS[1])
for i = 1, #moved, 2 do
  if type(known) == 'number' and known < tonumber(ARGV[2]) then
    redis.pcall('HSET', KEYS[1], moved[i], moved[i + 1])
  end
end
return moved
"""

# KEYS: key, its new name, the hash   ARGV: value, why
_MOVE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.pcall('HSET', KEYS[3], KEYS[2], ARGV[2])
return 1
"""


class ForeignKeys:
    """The keys that were renamed, as far as this process knows. Threads: any.

    Args:
        link: where.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._lock = Lock()
        self._reported: dict[str, str] = {}

    def run(self, types: Types, work: Callable[[redis.Redis], Answer]) -> Answer:
        """Do a piece of work; if a foreign key is in the way, rename it and repeat the work.

        Args:
            types: returns the type that each key of the work must have; called only if needed.
            work: must have done nothing that matters when it meets a foreign key.

        Raises:
            Unavailable: Redis does not answer, or refuses.
        """
        with self._link.client() as client:
            try:
                return work(client)
            except redis.exceptions.ResponseError as error:
                if not any(each in str(error) for each in _IN_THE_WAY):
                    raise
            self._clear(client, types())
            return work(client)

    def move(self, key: str, value: bytes, why: str) -> None:
        """Rename a key whose value cannot be read, unless it was changed."""
        name = f"{UNREADABLE}:{key}:{uuid4().hex[:8]}"
        with self._link.client() as client:
            moved: Any = client.eval(_MOVE, 3, key, name, UNREADABLE, value, why)
        if moved:
            self._report({name: why})

    def look(self) -> None:
        """Read which keys all processes renamed and nobody deleted; two round trips if any."""
        found: Any = self.run(lambda: {UNREADABLE: "hash"}, lambda it: it.hgetall(UNREADABLE))
        reported = dict(list(found.items())[:MOST])
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for name in reported:
                pipe.exists(name)
            there = dict(zip(reported, pipe.execute(), strict=True)) if reported else {}
            gone = [name for name in reported if not there[name]]
            if gone:
                client.hdel(UNREADABLE, *gone)
        with self._lock:
            self._reported = {
                _text(name): _in_words(_text(name), _text(reported[name]))
                for name in reported
                if there[name]
            }

    def reported(self) -> Mapping[str, str]:
        """Return each renamed key and what is wrong with it, as last read; no I/O."""
        with self._lock:
            return dict(self._reported)

    def _clear(self, client: redis.Redis, types: Mapping[str, str]) -> None:
        keys = [UNREADABLE, *types]
        about = [uuid4().hex[:8], str(MOST), *types.values()]
        reply: Any = client.eval(_CLEAR, len(keys), *keys, *about)
        names = [_text(each) for each in reply]
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
