"""The operations page below ``/cluster``: frames, whose scripts get the content from the API."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from flask import Flask, current_app, render_template, request

from pyspider_zk import __version__
from pyspider_zk.asked import MOST_PART
from pyspider_zk.cluster.cluster_settings import RANGES
from pyspider_zk.cluster.event_filter import EventGroup
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.tasks.filters import State
from pyspider_zk.webui.logins import LOGIN
from pyspider_zk.webui.users import Role

PREFIX = "/cluster"


class ClusterPage(NamedTuple):
    """One page.

    Attributes:
        name: of its template and its script.
        path: below ``PREFIX``.
        of: the page whose list leads to it; empty: it stands in the navigation itself.
    """

    name: str
    path: str
    title: str
    of: str = ""


PAGES = (
    ClusterPage("overview", "/", "Overview"),
    ClusterPage("steering", "/steering", "Cluster"),
    ClusterPage("projects", "/projects", "Projects"),
    ClusterPage("tasks", "/tasks", "Tasks"),
    ClusterPage("failures", "/failures", "Failures"),
    ClusterPage("assignment", "/assignment", "Assignment"),
    ClusterPage("batches", "/batches", "Batches"),
    ClusterPage("events", "/events", "Events"),
    ClusterPage("logs", "/logs", "Logs"),
    ClusterPage("dead-letters", "/dead-letters", "Dead letters"),
    ClusterPage("project", "/project", "Project", of="projects"),
    ClusterPage("editor", "/editor", "Editor", of="projects"),
    ClusterPage("task", "/task", "Task", of="tasks"),
    ClusterPage("results", "/results", "Results", of="projects"),
)

_CONFIG = "pyspider_zk"


def create_pages(config: Mapping[str, Any]) -> Flask:
    """Return the application; its paths begin behind ``PREFIX``.

    Threads: any.

    Args:
        config: pyspider's settings of the web UI, which may change while it runs.
    """
    flask_app = Flask(__name__)
    flask_app.extensions[_CONFIG] = config
    for page in PAGES:
        flask_app.add_url_rule(page.path, page.name, _show, defaults={"page": page})
    return flask_app


def _show(page: ClusterPage) -> str:
    login, config = request.environ.get(LOGIN), current_app.extensions[_CONFIG]
    return render_template(
        f"{page.name}.html",
        page=page,
        pages=PAGES,
        version=__version__,
        now=time.time(),
        user=login.name if login else "",
        looks_only=login is not None and login.is_viewer,
        edits=login.role.may(Role.ADMIN) if login else not config.get("login_to_change"),
        has_session=login is not None and "Authorization" not in request.headers,
        login_to_change=config.get("login_to_change"),
        cdn=config.get("cdn") or "/static/cdn/",
        ranges=RANGES,
        states=get_args(State),
        groups=list(EventGroup),
        kinds=sorted(EventKind),
        components=["scheduler", *ComponentKind, "all"],
        most_part=MOST_PART,
    )
