"""Regrouping of slot records for another number of slots. Pure."""

from collections.abc import Mapping
from typing import Any

from pyspider_zk.projects.names import is_project_name
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling.handoff_rules import STATE

_ALWAYS = "unsent"  # of the state, what does not mislead even after a death


def regrouped(
    records: Mapping[int, Mapping[str, Any]], epochs: Mapping[int, int], slots: int, epoch: int
) -> dict[int, dict[str, Any]]:
    """Return the records of new slots, made of those of old ones.

    A part is complete if the last owner of its old slot left it so. The others lose what would
    mislead, as after a death; the new record may then be called clean, for the next epoch.

    Args:
        epochs: at which each old slot was owned last.
        slots: how many new ones there are.
        epoch: before the first grant of the new slots.
    """
    parts: dict[int, dict[str, Any]] = {}
    for slot, record in records.items():
        is_clean = record.get("clean") is True and record.get("epoch") == epochs.get(slot)
        projects = record.get("projects")
        for name, part in (projects if isinstance(projects, dict) else {}).items():
            if isinstance(name, str) and is_project_name(name) and isinstance(part, dict):
                kept = part if is_clean else _harmless(part)
                parts.setdefault(slot_of(name, slots), {})[name] = kept
    return {slot: {"epoch": epoch, "clean": True, "projects": its} for slot, its in parts.items()}


def _harmless(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in STATE or key == _ALWAYS}
