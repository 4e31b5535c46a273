"""The meta record: founding a cluster, raising its protocol, and closing it.

Functions block for some seconds at most, unless they say so, and raise ``Unavailable``.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.protocols import (
    CLOSED,
    FIRST,
    HIGHEST,
    LOWEST,
    Protocols,
    highest_common,
    holding_back,
)
from pyspider_zk.cluster.records import (
    Assignment,
    Component,
    ComponentKind,
    LeaseTerms,
    Member,
    Meta,
    check_meta,
    no_cluster,
    terms_of,
)
from pyspider_zk.cluster.rules import Rules
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, Conflict, Mismatch
from pyspider_zk.limits import LONGEST_LEASE
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError, NodeExistsError
from pyspider_zk.zookeeper.steps import Write
from pyspider_zk.zookeeper.unreadable import Found

Wait = Callable[[float], object]


def ensure_cluster(
    connection: Connection, tree: Tree, mine: Meta, clock: Callable[[], float] = time.time
) -> None:
    """Create the cluster if it does not exist, or check that we belong to it.

    Epochs begin above the time in seconds since 1970: the task database may know those of an
    earlier ZooKeeper, which grew more slowly than one per second.

    A table that somebody deleted is created as an unreadable one, because members may own
    slots by it; the leader rewrites it when that is safe.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    ensure_meta(connection, tree, mine)
    connection.ensure([tree.ids, tree.members, tree.leases, tree.acks, tree.election])
    vacant = Assignment.vacant(mine.slots, epoch=int(clock())).encode()
    connection.ensure([tree.assignment], b"" if connection.children(tree.leases) else vacant)
    if tree.meta in connection.unreadable.mapping():
        _repair_meta(connection, tree, mine)


def ensure_meta(connection: Connection, tree: Tree, mine: Meta) -> None:
    """Create the meta record, or check that the cluster was created with the same values.

    Unreadable values are skipped: a running process knows its own. A record may be missing because
    somebody deleted it: then the assignment tells with how many slots the cluster was created.

    Args:
        mine: with the highest protocol that this process speaks.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    found = connection.find(tree.meta)
    if found is None:
        _check(_told_by(connection.find(tree.assignment), mine), mine, tree)
        connection.ensure([tree.meta], _lost(connection, tree, mine).encode())
        found = connection.get(tree.meta)
    _check(connection.unreadable.decoded(tree.meta, found, Meta.decode), mine, tree)


def _repair_meta(connection: Connection, tree: Tree, mine: Meta) -> None:
    """Rewrite unreadable values, if the assignment proves that they were mine.

    Raises:
        Mismatch: the assignment has another number of slots.
    """
    meta, table = connection.find_all([tree.meta, tree.assignment])
    told = _told_by(table, mine)
    if meta is None or told is None:
        return
    _check(told, mine, tree)
    try:
        connection.set(tree.meta, _lost(connection, tree, mine).encode(), meta[1])
    except BadVersionError:
        return  # another process did


def _told_by(table: Found | None, mine: Meta) -> Meta | None:
    """Return my values with the number of slots that the assignment proves, None if it does not."""
    try:
        slots = len(Assignment.decode(table[0]).slots) if table else 0
    except BadMessage:
        return None
    return replace(mine, slots=slots) if slots else None


def _check(found: Meta | None, mine: Meta, tree: Tree) -> None:
    """Check that these values, if they are known, are mine.

    Raises:
        Mismatch: they are others.
    """
    fault = check_meta(found, mine.slots, tree.root) if found else None
    if fault:
        raise Mismatch(fault)


def _lost(connection: Connection, tree: Tree, mine: Meta) -> Meta:
    """Return what to write where there is no record: mine, or one that is as good as the lost.

    Nobody knows any more which protocol was in use. It is at most the highest that all speak who
    run, and a higher one than it was only keeps out who would be too old soon anyway; a lower one
    would let in who cannot read what was written. In a new cluster nobody runs but this process.
    """
    spoken = {**_spoken(connection, tree), "": (LOWEST, mine.protocol)}
    return Meta(mine.slots, highest_common(LOWEST, spoken))


Decode = Callable[[bytes], Member | Component]


def _registered(connection: Connection, tree: Tree) -> dict[str, tuple[str, Decode]]:
    """Return path and form of the record of each process that is registered, by what it is.

    Only ephemeral znodes are: what somebody else put there is no process.
    """
    found: dict[str, tuple[str, Decode]] = {
        f"member {name}": (tree.member(name), Member.decode)
        for name in connection.children(tree.members)
    }
    for kind in ComponentKind:
        for name in connection.children(f"{tree.components}/{kind}"):
            found[f"{kind} {name}"] = (tree.component(kind, name), Component.decode)
    details = connection.details([path for path, _ in found.values()])
    return {
        who: place
        for (who, place), its in zip(found.items(), details, strict=True)
        if its is not None and its.ephemeral
    }


def _spoken(connection: Connection, tree: Tree) -> dict[str, Protocols]:
    """Return what those speak who run; a record that cannot be read speaks the first."""
    spoken: dict[str, Protocols] = {}
    for who, (path, decode) in _registered(connection, tree).items():
        record = connection.unreadable.decoded(path, connection.find(path), decode)
        spoken[who] = record.protocols if record else (FIRST, FIRST)
    return spoken


class Raised(NamedTuple):
    """The protocol before and after; the same if all who run already go by the highest."""

    before: int
    after: int


def raise_protocol(connection: Connection, tree: Tree, who: str) -> Raised:
    """Raise the protocol in use to the highest that this version and all who run speak.

    It is raised with its event, or not at all. A process that is away meanwhile and does not speak
    it is refused when it comes back.

    Args:
        who: the user who asked for it.

    Raises:
        Conflict: somebody who runs holds it back, the cluster is closed, its meta record is
            damaged, or somebody else wrote it meanwhile.
        Mismatch: there is no cluster.
    """
    meta, version = _open_meta(connection, tree)
    spoken = {**_spoken(connection, tree), "this command": (FIRST, HIGHEST)}
    after = highest_common(meta.protocol, spoken)
    if after == meta.protocol:
        _check_nobody_holds_back(meta.protocol, spoken)
        return Raised(meta.protocol, after)
    text = f"the protocol was raised from {meta.protocol} to {after}"
    event = Event(EventKind.UPGRADE, text, time.time(), who)
    connection.ensure([tree.events])
    write = Write(tree.meta, Meta(meta.slots, after).encode(), version)
    try:
        connection.multi(write, EventLog(connection, tree).step(event))
    except BadVersionError:
        raise Conflict("somebody else changed the meta record: try again") from None
    return Raised(meta.protocol, after)


def _open_meta(connection: Connection, tree: Tree) -> tuple[Meta, int]:
    found = connection.find(tree.meta)
    if found is None:
        raise no_cluster(tree.root)
    try:
        meta = Meta.decode(found[0])
    except BadMessage as error:
        raise Conflict(f"{error}: restart a scheduler, which writes it anew") from error
    if meta.protocol == CLOSED:
        raise Conflict(f"the cluster at {tree.root} is closed: complete what closed it")
    return meta, found[1]


def _check_nobody_holds_back(in_use: int, spoken: Mapping[str, Protocols]) -> None:
    """Check that nobody who runs speaks a higher protocol that others do not.

    Raises:
        Conflict: naming those who do not.
    """
    highest = max(its[1] for its in spoken.values())
    if highest <= in_use:
        return
    old = holding_back(highest, spoken)
    raise Conflict(
        f"the cluster goes by protocol {in_use}, and {highest} is spoken by some only;"
        f" {len(old)} do not speak it, such as {old[0]}: replace them by the newer version"
    )


def close_cluster(connection: Connection, tree: Tree, wait: Wait = time.sleep) -> int:
    """Keep everybody from joining, once nobody is there; return the version of the meta record.

    A process that is suspended may still act while its lease lasts, so leases are waited for, as
    a leader waits for them. Blocks for so long. A cluster that is closed already stays so, so what
    was interrupted can be done again.

    Raises:
        Conflict: processes run, or somebody else writes.
    """
    connection.sync(tree.root)
    _check_nobody(connection, tree)
    version = _write_closed(connection, tree)
    connection.sync(tree.root)
    _check_nobody(connection, tree)  # somebody may have passed the meta record before
    _await_leases(connection, tree, wait)
    return version


def slots_of(connection: Connection, tree: Tree) -> int | None:
    """Return how many slots a cluster has, also while it is closed; None if nobody can tell."""
    meta = _readable(connection.find(tree.meta))
    return meta.slots if meta else None


def _readable(found: Found | None) -> Meta | None:
    try:
        return Meta.decode(found[0]) if found else None
    except BadMessage:
        return None


def _write_closed(connection: Connection, tree: Tree) -> int:
    found = connection.find(tree.meta)
    meta = _readable(found) or Meta(1, FIRST)
    reopens = meta.reopens if meta.protocol == CLOSED else meta.protocol
    closed = Meta(meta.slots, CLOSED, reopens).encode()
    try:
        if found is None:
            connection.create(tree.meta, closed)
            return 0
        return connection.set(tree.meta, closed, found[1])
    except (BadVersionError, NodeExistsError):
        raise Conflict(f"somebody else changes the cluster at {tree.root}: try again") from None


def _check_nobody(connection: Connection, tree: Tree) -> None:
    """Check that no process of the cluster is registered.

    Raises:
        Conflict: naming one of those that are.
    """
    running = list(_registered(connection, tree))
    if running:
        raise Conflict(
            f"{len(running)} processes run at {tree.root}, such as {running[0]}: stop all of them."
            " One that was killed is gone when its session ends, after some seconds"
        )


def _await_leases(connection: Connection, tree: Tree, wait: Wait) -> None:
    """Wait until no lease can be held by anybody; one that was left for a restart is not.

    Raises:
        Conflict: one of them was renewed meanwhile.
    """
    before = _leases(connection, tree)
    if not before:
        return
    wait(max(Rules(lease=_length(terms)).expiry for terms, _ in before.values()))
    after = _leases(connection, tree)
    if {path: version for path, (_, version) in after.items()} != {
        path: version for path, (_, version) in before.items()
    }:
        raise Conflict(f"members renew their leases at {tree.root}: stop all of them")


def _leases(connection: Connection, tree: Tree) -> dict[str, tuple[LeaseTerms, int]]:
    """Return terms and version of the leases that somebody may hold."""
    paths = [f"{tree.leases}/{name}" for name in connection.children(tree.leases)]
    found = zip(paths, connection.find_all(paths), strict=True)
    leases = {path: (terms_of(lease[0]), lease[1]) for path, lease in found if lease}
    return {path: (terms, version) for path, (terms, version) in leases.items() if not terms.left}


def _length(terms: LeaseTerms) -> float:
    """Return how long a lease lasts; where that cannot be read, the longest that is allowed."""
    return terms.lease if 0 < terms.lease <= LONGEST_LEASE else LONGEST_LEASE
