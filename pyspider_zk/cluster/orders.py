"""Orders of an operator to the whole cluster."""

from collections.abc import Mapping
from typing import Any

from pyspider_zk.cluster.cluster_settings import (
    ClusterSettings,
    Maintenance,
    with_evicted,
    with_maintenance,
    with_pin,
    with_rebalance,
    with_values,
    without_evicted,
    without_pin,
    without_rebalance,
)
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.settings_store import SettingsStore

_MAINTENANCE = {
    Maintenance.OFF: "maintenance is over",
    Maintenance.ON: "maintenance: only the slots of members that drain or are gone move",
    Maintenance.HOLD: "maintenance: no slot moves, not even those of dead members",
}


class Orders:
    """What one user tells the cluster. Each order returns the settings that stand from then on.

    Threads: any; calls block for some seconds at most. All raise ``Unavailable`` if ZooKeeper does
    not answer, ``Mismatch`` if there is no cluster, ``Conflict`` if its settings are damaged.
    """

    def __init__(self, store: SettingsStore, who: str) -> None:
        self._store = store
        self._who = who

    def set(self, values: Mapping[str, Any]) -> ClusterSettings:
        """Set cluster-wide settings by name; None unsets one.

        Raises:
            BadRequest: a name or a value that cannot be.
        """
        told = ", ".join(
            f"{name} unset" if value is None else f"{name} set to {value}"
            for name, value in values.items()
        )
        return self._store.change(
            lambda found: with_values(found, values), EventKind.SETTINGS, told, self._who
        )

    def maintain(self, mode: Maintenance) -> ClusterSettings:
        """Let the assignment stand still, or go on."""
        return self._store.change(
            lambda found: with_maintenance(found, mode),
            *(EventKind.MAINTENANCE, _MAINTENANCE[mode], self._who),
        )

    def rebalance(self) -> ClusterSettings:
        """Let the leader even the slots out once although maintenance is on."""
        return self._store.change(
            with_rebalance,
            *(EventKind.REBALANCE, "maintenance is suspended while slots move", self._who),
        )

    def end_rebalance(self) -> ClusterSettings:
        """Let maintenance go on though slots may still be uneven."""
        return self._store.change(
            without_rebalance,
            *(EventKind.REBALANCE, "maintenance goes on: rebalancing was ended", self._who),
        )

    def evict(self, number: int) -> ClusterSettings:
        """Move all slots of a member away, and give it none until it is admitted again."""
        return self._store.change(
            lambda found: with_evicted(found, number),
            *(EventKind.EVICT, f"member {number} was evicted: it gets no slots", self._who),
        )

    def admit(self, number: int) -> ClusterSettings:
        """Let a member get slots again."""
        return self._store.change(
            lambda found: without_evicted(found, number),
            *(EventKind.EVICT, f"member {number} may get slots again", self._who),
        )

    def pin(self, slot: int, number: int) -> ClusterSettings:
        """Keep a slot at a member whenever that is there."""
        return self._store.change(
            lambda found: with_pin(found, slot, number),
            *(EventKind.PIN, f"slot {slot} was pinned to member {number}", self._who),
        )

    def unpin(self, slot: int) -> ClusterSettings:
        """Let a slot be at any member."""
        return self._store.change(
            lambda found: without_pin(found, slot),
            *(EventKind.PIN, f"slot {slot} is pinned no more", self._who),
        )

    def reset(self) -> ClusterSettings:
        """Write the defaults over whatever is there, also what is damaged."""
        return self._store.reset(self._who)
