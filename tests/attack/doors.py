"""What stands open to whom, as docs/security.md says: the tables that every answer is judged by."""

from enum import IntEnum
from typing import NamedTuple

from pyspider_zk.webui.users import Role


class Who(IntEnum):
    """Who asks; each may do what those before may."""

    NOBODY = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def role(self) -> Role | None:
        return Role(self.name.lower()) if self else None


class Needs(NamedTuple):
    """Who it takes to look at a route, and to change something there."""

    look: Who
    change: Who


OPEN = Needs(Who.NOBODY, Who.NOBODY)
LOOK = Needs(Who.VIEWER, Who.ADMIN)
"""Only a way to look; what other methods are to do there nobody knows, so they take an admin."""
OPERATE = Needs(Who.VIEWER, Who.OPERATOR)
EDIT = Needs(Who.VIEWER, Who.ADMIN)
API = OPERATE

LOOKING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"})
CHANGING = frozenset(
    {"POST", "PUT", "PATCH", "DELETE", "MKCOL", "MOVE", "COPY", "LOCK", "UNLOCK", "PROPPATCH"}
)

ROUTES = {
    "/": LOOK,
    "/queues": LOOK,
    "/update": OPERATE,
    "/counter": LOOK,
    "/run": OPERATE,
    "/robots.txt": LOOK,
    "/debug/<project>": EDIT,
    "/debug/<project>/run": EDIT,
    "/debug/<project>/save": EDIT,
    "/debug/<project>/get": EDIT,
    "/blank.html": LOOK,
    "/task/<path:taskid>": LOOK,
    "/task/<path:taskid>.json": LOOK,
    "/tasks": LOOK,
    "/active_tasks": LOOK,
    "/results": LOOK,
    "/results/dump/<project>.<_format>": LOOK,
    "/static/<path:filename>": LOOK,
    "/dav/": EDIT,
    "/dav/<path:script>": EDIT,
    "/login/": OPEN,
    "/login/out": OPEN,
    "/login/static/<path:filename>": OPEN,
    "/cluster/": LOOK,
    "/cluster/projects": LOOK,
    "/cluster/assignment": LOOK,
    "/cluster/steering": LOOK,
    "/cluster/batches": LOOK,
    "/cluster/events": LOOK,
    "/cluster/logs": LOOK,
    "/cluster/dead-letters": LOOK,
    "/cluster/failures": LOOK,
    "/cluster/project": LOOK,
    "/cluster/editor": LOOK,
    "/cluster/tasks": LOOK,
    "/cluster/task": LOOK,
    "/cluster/results": LOOK,
    "/cluster/static/<path:filename>": LOOK,
    "/api/v1/openapi.json": API,
    "/api/v1/overview": API,
    "/api/v1/projects": API,
    "/api/v1/new-script": API,
    "/api/v1/projects/<string:name>": EDIT,
    "/api/v1/projects/<string:name>/script": EDIT,
    "/api/v1/projects/<string:name>/versions": EDIT,
    "/api/v1/projects/<string:name>/versions/<float:saved_at>": EDIT,
    "/api/v1/tasks": API,
    "/api/v1/tries": API,
    "/api/v1/task": API,
    "/api/v1/results": API,
    "/api/v1/workload": API,
    "/api/v1/members": API,
    "/api/v1/members/<int:number>": API,
    "/api/v1/members/<int:number>/drain": API,
    "/api/v1/members/<int:number>/evict": API,
    "/api/v1/maintenance": API,
    "/api/v1/settings": API,
    "/api/v1/slots/<int:slot>/pin": API,
    "/api/v1/components": API,
    "/api/v1/assignment": API,
    "/api/v1/assignment/preview": API,
    "/api/v1/assignment/rebalance": API,
    "/api/v1/queues": API,
    "/api/v1/batches": API,
    "/api/v1/batches/<path:id>": API,
    "/api/v1/batches/<path:id>/retry": API,
    "/api/v1/events": API,
    "/api/v1/history": API,
    "/api/v1/events/archive": API,
    "/api/v1/events/archive.csv": API,
    "/api/v1/failures": API,
    "/api/v1/failures/tasks": API,
    "/api/v1/failures/projects": API,
    "/api/v1/logs": API,
    "/api/v1/dead-letters": API,
    "/api/v1/dead-letters/replay": API,
    "/api/v1/dead-letters/drop": API,
}
"""Who it takes, by the route as Flask writes it. What is missing here fails the suite."""

PORTS = {"web UI": 5000, "XML-RPC of a scheduler": 23333}
"""The ports that docs/security.md names for what listens; the others it calls free, or off."""

ZOOKEEPER_PORT, REDIS_PORT = 2281, 6379
"""Where docs/how-to/secure.md has them listen, with TLS."""

LISTENS = {
    "scheduler1": {PORTS["XML-RPC of a scheduler"]},
    "scheduler2": {PORTS["XML-RPC of a scheduler"]},
    "processor": set(),
    "fetcher": set(),
    "results": set(),
    "webui": {PORTS["web UI"]},
    "zookeeper": {ZOOKEEPER_PORT},
    "redis": {REDIS_PORT},
}
"""What others reach of each machine, in a cluster on several."""

WITHOUT_LOGIN = frozenset({"quit", "reset"})
"""The commands that a Redis carries out for who has not logged in: they do nothing to it."""


def needs(route: str, method: str) -> Who | None:
    """Return who it takes; None: nobody has judged this route."""
    known = ROUTES.get(route)
    if known is None:
        return None
    return known.look if method in LOOKING else known.change
