"""Orders of an operator: the cluster-wide settings, and how many schedulers `up` should run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspider_zk.cluster.cluster_settings import (
    ClusterSettings,
    Maintenance,
    faults_of,
    with_maintenance,
    with_rebalance,
    with_values,
)
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.records import decode_scale, no_cluster
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, BadRequest, Conflict
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError, NoNodeError
from pyspider_zk.zookeeper.steps import Write

Edit = Callable[[ClusterSettings], ClusterSettings]

REBALANCED = "maintenance goes on: the slots were rebalanced"
"""The event of the leader; older versions write it, too."""

_MAINTENANCE = {
    Maintenance.OFF: "maintenance is over",
    Maintenance.ON: "maintenance: only the slots of members that drain or are gone move",
    Maintenance.HOLD: "maintenance: no slot moves, not even those of dead members",
}


class Orders:
    """The cluster-wide settings, and what one user orders of them.

    Each order comes with its event, or not at all; it returns the settings that stand from then on.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``. All raise
    ``Mismatch`` if there is no cluster, and ``Conflict`` if the settings are damaged; ``reset``
    does not.

    Args:
        who: the user.
    """

    def __init__(self, connection: Connection, tree: Tree, who: str) -> None:
        self._connection = connection
        self._tree = tree
        self._path = tree.settings
        self._events = EventLog(connection, tree)
        self._who = who

    def read(self) -> ClusterSettings:
        """Return the settings as they stand."""
        self._check_cluster()
        found = self._connection.find(self._path)
        return self._decoded(found[0]) if found else ClusterSettings()

    def change(self, kind: EventKind, text: str, edit: Edit) -> ClusterSettings:
        """Change the settings; return them. An edit that changes nothing writes nothing.

        Args:
            kind: of the event.
            text: of the event, one sentence.
            edit: returns the new settings; called again if somebody else wrote meanwhile.

        Raises:
            BadRequest: nobody could read those.
        """
        while True:
            self._ensure()
            data, version = self._connection.get(self._path)
            after = edit(before := self._decoded(data))
            if after == before:
                return after
            if faults := faults_of(after):
                raise BadRequest("; ".join(faults))
            event = Event(kind, text, time.time(), self._who)
            write = Write(self._path, after.encode(), version)
            try:
                self._connection.multi(write, self._events.step(event))
            except (BadVersionError, NoNodeError):
                continue
            return after

    def set(self, values: Mapping[str, Any]) -> ClusterSettings:
        """Set cluster-wide settings by name; None unsets one.

        Raises:
            BadRequest: a name or a value that cannot be.
        """
        text = ", ".join(
            f"{name} unset" if value is None else f"{name} set to {value}"
            for name, value in values.items()
        )
        return self.change(EventKind.SETTINGS, text, lambda now: with_values(now, values))

    def maintain(self, mode: Maintenance) -> ClusterSettings:
        """Let the assignment stand still, or go on."""
        return self.change(
            EventKind.MAINTENANCE, _MAINTENANCE[mode], lambda now: with_maintenance(now, mode)
        )

    def rebalance(self) -> ClusterSettings:
        """Let the leader even the slots out once although maintenance is on."""
        return self.change(
            EventKind.REBALANCE,
            "maintenance is suspended while slots move",
            with_rebalance,
        )

    def is_rebalanced(self) -> bool:
        """Return whether the last rebalancing under maintenance ended because it was done."""
        self._connection.sync(self._tree.events)
        events = [event for _, event in self._events.read(limit=1000)]
        texts = [event.text for event in events if event.kind == EventKind.REBALANCE]
        return texts[-1:] == [REBALANCED]

    def end_rebalance(self) -> ClusterSettings:
        """Let maintenance go on though slots may still be uneven."""
        return self.change(
            EventKind.REBALANCE,
            "maintenance goes on: rebalancing was ended",
            lambda now: replace(now, rebalance=False),
        )

    def evict(self, number: int) -> ClusterSettings:
        """Move all slots of a member away, and give it none until it is admitted again."""
        return self.change(
            EventKind.EVICT,
            f"member {number} was evicted: it gets no slots",
            lambda now: replace(now, evicted=tuple(sorted({*now.evicted, number}))),
        )

    def admit(self, number: int) -> ClusterSettings:
        """Let a member get slots again."""
        return self.change(
            EventKind.EVICT,
            f"member {number} may get slots again",
            lambda now: replace(now, evicted=tuple(each for each in now.evicted if each != number)),
        )

    def pin(self, slot: int, number: int) -> ClusterSettings:
        """Keep a slot at a member whenever that is there."""
        return self.change(
            EventKind.PIN,
            f"slot {slot} was pinned to member {number}",
            lambda now: replace(now, pins={**now.pins, slot: number}),
        )

    def unpin(self, slot: int) -> ClusterSettings:
        """Let a slot be at any member."""
        return self.change(
            EventKind.PIN,
            f"slot {slot} is pinned no more",
            lambda now: replace(now, pins={at: to for at, to in now.pins.items() if at != slot}),
        )

    def reset(self) -> ClusterSettings:
        """Write the defaults over whatever is there, also what is damaged."""
        self._ensure()
        text = "the cluster-wide settings were reset"
        event = Event(EventKind.SETTINGS, text, time.time(), self._who)
        write = Write(self._path, ClusterSettings().encode())
        self._connection.multi(write, self._events.step(event))
        return ClusterSettings()

    def _check_cluster(self) -> None:
        if self._connection.find(self._tree.meta) is None:
            raise no_cluster(self._tree.root)

    def _ensure(self) -> None:
        self._check_cluster()
        self._connection.ensure([self._path], ClusterSettings().encode())
        self._connection.ensure([self._tree.events])

    def _decoded(self, data: bytes) -> ClusterSettings:
        try:
            return ClusterSettings.decode(data)
        except BadMessage as error:
            remedy = "the schedulers go by the last good ones; `pyspider-zk settings reset`"
            raise Conflict(f"{self._path} is damaged: {error}; {remedy} makes it anew") from error


class ScaleNode:
    """The znode through which ``pyspider-zk scale`` controls a running ``up``.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._path = tree.scale

    def get(self) -> int | None:
        """Return the requested number, None without a readable request."""
        found = self._connection.find(self._path)
        return self._connection.unreadable.decoded(self._path, found, decode_scale)

    def set(self, schedulers: int) -> None:
        """Request a number of schedulers."""
        data = str(schedulers).encode()
        self._connection.ensure([self._path], data)
        self._connection.set(self._path, data)
