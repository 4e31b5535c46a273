"""Projects with the numbers that their owners hold."""

import time
from collections.abc import Collection
from typing import Any

from pyspider_zk.groups.ids import MemberId
from pyspider_zk.projects.selection import Selection
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.projects import find
from pyspider_zk.webui.api.schemas import NUMBER_SORTS, WorkloadPageSchema, WorkloadQuerySchema

blueprint = Part("workload", __name__, description="Projects with their owners' numbers")

Row = dict[str, Any]


@blueprint.route("/workload")
@blueprint.query(WorkloadQuerySchema)
@blueprint.tells(WorkloadPageSchema)
def list_workload(query: dict[str, Any]) -> dict[str, Any]:
    """List projects with what their owners have of them.

    The numbers are recomputed for each answer. They are null for a project whose owner does not
    answer; `missing` names such members. If ZooKeeper is away, it says so, and owners are null.
    """
    sort, offset, limit = (query.pop(name) for name in ("sort", "offset", "limit"))
    by_numbers = sort.removeprefix("-") in NUMBER_SORTS
    found, missing = find(Selection(**query, all=True), "name" if by_numbers else sort)
    numbers, silent = _ask("local_project_numbers", missing)
    rows = [{**row, "numbers": numbers.get(row["name"])} for row in found.items]
    if by_numbers:
        rows = _sorted(rows, sort)
    shown = rows[offset : offset + limit]
    names = [row["name"] for row in shown]
    history, _ = _ask("local_project_history", [], names, past=silent)  # they had their time
    items = [{**row, "history": history.get(row["name"])} for row in shown]
    missing += [f"member {member.number} does not answer" for member in silent]
    page = {"items": items, "total": found.total, "offset": offset}
    return {**page, "at": time.time(), "missing": missing}


def _ask(
    method: str, missing: list[str], *args: Any, past: Collection[MemberId] = ()
) -> tuple[Row, list[MemberId]]:
    """Return what the owners say, by project, and who does not answer."""
    try:
        answers, silent = backend().rpc.ask(method, *args, past=past)
    except OSError as error:
        missing.append(f"the schedulers cannot be asked: {error}")
        return {}, []
    union = {name: value for answer in answers.values() for name, value in answer.items()}
    return union, silent


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    """Sort by a number; what is unknown comes last in any case."""
    key = sort.removeprefix("-")
    known = [row for row in rows if (row["numbers"] or {}).get(key) is not None]
    rest = [row for row in rows if (row["numbers"] or {}).get(key) is None]
    return sorted(known, key=lambda row: row["numbers"][key], reverse=sort.startswith("-")) + rest
