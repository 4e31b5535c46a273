"""Attacks on ZooKeeper and Redis by who reaches them and has no login."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import redis
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from tests.attack.doors import WITHOUT_LOGIN
from tests.attack.web import told

ATTACKED = b"attacked"

_ON_A_ZNODE: Mapping[str, Callable[[KazooClient, str], Any]] = {
    "read": lambda client, path: client.get(path),
    "list": lambda client, path: client.get_children(path),
    "write": lambda client, path: client.set(path, ATTACKED),
    "create below": lambda client, path: client.create(f"{path}/attacked", ATTACKED),
    "set the ACL": lambda client, path: client.set_acls(path, OPEN_ACL_UNSAFE),
    "write in a transaction": lambda client, path: _write_in_transaction(client, path),
    "delete": lambda client, path: client.delete(path),
}
"""What nobody else may do to a znode of the cluster; to delete comes last."""


def attack_znodes(
    client: KazooClient, paths: Iterable[str], secrets: Iterable[str]
) -> Iterator[str]:
    """Try everything on every znode; yield what succeeded and what answers told.

    Args:
        client: of who is no member.
        paths: those of a running cluster, the deepest last.
        secrets: what no answer may tell.
    """
    hidden, known = list(secrets), sorted(paths, reverse=True)
    for path in known:
        for what, act in _ON_A_ZNODE.items():
            if what == "delete" and path == known[-1]:
                continue  # to delete the root is a right of its parent, which is everybody's
            answer = _answer(act, client, path)
            if not isinstance(answer, NoAuthError):  # any other error comes after the right
                yield f"znode {path}: may {what}"
            yield from told(f"znode {path}, {what}", repr(answer), hidden)
        yield from told(
            f"znode {path}, its ACL", repr(_answer(KazooClient.get_acls, client, path)), hidden
        )


def _answer(act: Callable[[KazooClient, str], Any], client: KazooClient, path: str) -> Any:
    try:
        return act(client, path)
    except KazooException as refused:
        return refused


def _write_in_transaction(client: KazooClient, path: str) -> None:
    """Write as members do: several steps at once.

    Raises:
        KazooException: it is refused.
    """
    transaction = client.transaction()
    transaction.check(path, -1)
    transaction.set_data(path, ATTACKED)
    errors = [answer for answer in transaction.commit() if isinstance(answer, Exception)]
    for error in sorted(errors, key=lambda error: not isinstance(error, NoAuthError)):
        raise error


def commands(client: "redis.Redis[bytes]") -> dict[str, int]:
    """Return every command of a Redis with how many words it takes, itself included."""
    return {name: abs(about["arity"]) for name, about in client.command().items()}


def attack_redis(client: "redis.Redis[bytes]", known: Mapping[str, int], key: str) -> Iterator[str]:
    """Try every command without a login; yield those that were carried out.

    Args:
        client: that logs in as nobody.
        known: the commands, by how many words they take.
        key: one that there is.
    """
    link = client.connection_pool.make_connection()
    for name, words in sorted(known.items()):
        try:
            link.connect()
            link.send_command(*name.split("|"), *[key] * (words - 1 - name.count("|")))
            answer = link.read_response()
        except redis.RedisError:
            continue
        finally:
            link.disconnect()
        if name not in WITHOUT_LOGIN:
            yield f"Redis carries out {name} for who has no login: {answer!r:.100}"
