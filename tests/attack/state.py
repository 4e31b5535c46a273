"""What a cluster consists of, and what is planted there, so that what an attack does is known."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from pyspider.database import connect_database

State = Mapping[str, object]

RENEWED = "/leases/"
"""Below it every member renews its lease each second: version and data change all the time."""

WEIGHED = "/slot-rates"
"""The leader writes it anew every five minutes, also if nothing changed."""

PRESENT = "/components/"
REPORTED = ("memory", "oldest", "oldest_began", "tasks_per_s", "under_way")
"""What each component reports anew every ten seconds."""

SAVED = (b"slot_record:", b"history", b"cluster_log")
"""What such keys hold their members save anew, or add to, every minute or when they warn."""

REST = 120.0  # seconds for a cluster that was just started to come to rest
_QUIET = 6.0  # seconds without a change at rest; a busy leader pauses between two writes


def state(
    databases: Mapping[str, str],
    zookeeper: KazooClient,
    root: str,
    store: "redis.Redis[bytes]",
    files: Iterable[Path],
) -> State:
    """Return all that stands: rows, znodes with versions and ACLs, keys, files."""
    found = dict(rows(databases))
    found |= {f"znode {path}": said for path, said in znodes(zookeeper, root)}
    found |= {f"key {name}": value for name, value in keys(store)}
    return found | {f"file {path.name}": _digest(path.read_bytes()) for path in files}


def at_rest(look: Callable[[], State]) -> State:
    """Return the state once nothing changes any more by itself.

    Raises:
        TimeoutError: something always does.
    """
    deadline = time.monotonic() + REST
    before = look()
    while True:
        time.sleep(_QUIET)  # that nothing happens for a while is what is waited for
        now = look()
        if not (different := changes(before, now)):
            return now
        if time.monotonic() > deadline:
            raise TimeoutError(f"the cluster is not at rest: {different}")
        before = now


def changes(before: State, after: State) -> list[str]:
    """Return what differs, in words."""
    names = sorted(before.keys() | after.keys())
    return [
        f"{name}: {before.get(name, 'absent')!s:.200} -> {after.get(name, 'absent')!s:.200}"
        for name in names
        if before.get(name) != after.get(name)
    ]


ARCHIVE = "pyspider-zk-events"


def rows(databases: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """Yield the rows of all tables but the archive: it has what was in the log, a while later."""
    for kind, url in databases.items():
        with closing(sqlite3.connect(url.partition(":///")[2], timeout=20)) as db:
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                if table == ARCHIVE:
                    continue
                for row in db.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - our own names
                    yield f"{kind} row {table} {row[0]}", row


def znodes(client: KazooClient, path: str) -> Iterator[tuple[str, object]]:
    """Yield a znode and all below it; what is written at rest without what a write changes."""
    try:
        data, stat = client.get(path)
        acl = client.get_acls(path)[0]
        below = client.get_children(path)
    except NoNodeError:  # it just went
        return
    if RENEWED in path:
        yield path, acl
    else:
        is_written = path.endswith(WEIGHED) or PRESENT in path
        yield path, (_digest(_lasting(path, data)), None if is_written else stat.version, acl)
    for name in sorted(below):
        yield from znodes(client, f"{path}/{name}")


def _lasting(path: str, data: bytes) -> bytes:
    """Return the data of a znode without what a component reports."""
    if PRESENT not in path or not data:
        return data
    record = json.loads(data)
    return repr({name: record[name] for name in sorted(record.keys() - set(REPORTED))}).encode()


def keys(client: "redis.Redis[bytes]") -> Iterator[tuple[str, object]]:
    """Yield what each key holds that nobody writes at rest."""
    readers: Mapping[bytes, Callable[[Any], Any]] = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": lambda key: sorted(client.smembers(key)),
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": lambda key: (client.xrange(key), _groups(client, key)),
    }
    for key in sorted(client.scan_iter()):
        if key.startswith(SAVED):
            continue
        if (kind := client.type(key)) == b"none":  # it just went
            continue
        yield key.decode(errors="replace"), (kind, _digest(repr(readers[kind](key)).encode()))


def _groups(client: "redis.Redis[bytes]", key: bytes) -> list[tuple[object, object]]:
    """Return what the groups of a stream have read; not who looks, for all look all the time."""
    try:
        return [(each["name"], each["pending"]) for each in client.xinfo_groups(key)]
    except redis.ResponseError:
        if client.exists(key):
            raise
        return []  # it just went


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


KEPT, LOCKED = "kept", "locked"
"""Two projects; the second is locked."""

TASK = "canarytask"
SCRIPT_CANARY = "canary_of_the_script"
URL_CANARY = "http://canary-of-the-task.example/"
RESULT_CANARY = "canary-of-the-result"

MEMBERS_ONLY = (SCRIPT_CANARY, URL_CANARY, RESULT_CANARY)
"""What whoever may look sees, and nobody else."""

SCRIPT = f"""from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    {SCRIPT_CANARY} = 1

    def on_start(self):
        pass
"""


def plant(databases: Mapping[str, str]) -> None:
    """Make the projects, each with a task and a result; nothing of them is due."""
    made = {kind: connect_database(url) for kind, url in databases.items()}
    for name, group in ((KEPT, ""), (LOCKED, "lock")):
        row = {"status": "STOP", "script": SCRIPT, "group": group, "comments": ""}
        made["project"].insert(name, {**row, "rate": 1, "burst": 1})
        task = {"taskid": TASK, "project": name, "url": URL_CANARY, "status": 2}
        more = {"schedule": {}, "fetch": {}, "process": {"callback": "on_start"}, "track": {}}
        made["task"].insert(name, TASK, {**task, **more, "lastcrawltime": 1})
        made["result"].save(name, TASK, URL_CANARY, {"canary": RESULT_CANARY})
    for database in made.values():
        if database.conn is not None:
            database.conn.close()
