"""Projects: which there are, and who schedules them."""

from typing import Any

from pyspider_zk.errors import NotFound, SessionLost, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.project_list import ResultPage
from pyspider_zk.projects.selection import Selection
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part, in_path
from pyspider_zk.webui.api.schemas import ProjectPageSchema, ProjectQuerySchema, RouteSchema

blueprint = Part("projects", __name__, description="Projects and who schedules them")


@blueprint.route("/projects")
@blueprint.query(ProjectQuerySchema)
@blueprint.tells(ProjectPageSchema)
def list_projects(query: dict[str, Any]) -> dict[str, Any]:
    """List projects; if ZooKeeper is away, without their owners, and `missing` says so."""
    paging = {name: query.pop(name) for name in ("sort", "offset", "limit")}
    page, missing = find(Selection(**query, all=True), **paging)
    return {**page.as_dict(), "missing": missing}


@blueprint.route("/projects/<string:name>", parameters=in_path("name"))
@blueprint.tells(RouteSchema, errors=(400, 404))
def get_project(name: str) -> dict[str, Any]:
    """Return one project and the member that schedules it."""
    found = backend().batch_service.projects.page(Selection(names=(name,)), with_owners=False).items
    if not found:
        raise NotFound(f"there is no project {name!r}")
    cluster, slot = backend().cluster(), found[0]["slot"]
    row, owner = cluster.assignment.slots[slot], cluster.owner(slot)
    return {
        **found[0],
        "owner": number(owner),
        "address": cluster.members[owner].address if owner else None,
        "phase": row.phase,
        "next": number(row.next),
    }


def find(selection: Selection, sort: str, **paging: Any) -> tuple[ResultPage, list[str]]:
    """Return projects and what is missing: their owners, unless the question is about those.

    Raises:
        Unavailable: the question is about owners, or the project database is away.
    """
    page = backend().batch_service.projects.page
    try:
        return page(selection, sort, **paging), []
    except (Unavailable, SessionLost) as error:
        if selection.owner is not None or sort.removeprefix("-") == "owner":
            raise
        return page(selection, sort, **paging, with_owners=False), [f"owners: {error}"]


def number(member: MemberId | None) -> int | None:
    """Return a member's number."""
    return member.number if member else None
