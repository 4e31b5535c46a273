"""Processors for tests, and the projects that they run."""

import queue
from typing import Any

from pyspider_zk.config import Settings
from pyspider_zk.hooks import ClusterProcessor
from pyspider_zk.queues.api import Queues


def add_project(projectdb: Any, name: str, script: str) -> None:
    """Insert a running project."""
    row = {"name": name, "script": script, "status": "RUNNING", "group": None, "comments": None}
    projectdb.insert(name, {**row, "rate": 1, "burst": 1})


def a_processor(
    projectdb: Any,
    queues: Queues,
    fetched: Any = None,
    results: Any = None,
    *,
    settings: Settings | None = None,
    slots: int = 8,
    limit: float = 0,
    imports: bool = False,
) -> ClusterProcessor:
    """Return a processor, which takes pages from a queue and puts results into another.

    Args:
        limit: seconds of a callback; 0: none.
        imports: scripts may import other projects.
    """
    return ClusterProcessor(
        projectdb,
        queue.Queue() if fetched is None else fetched,
        None,
        None,
        queue.Queue() if results is None else results,
        enable_projects_import=imports,
        process_time_limit=limit,
        settings=settings or Settings(slots=slots),
        queues=queues,
    )


def page_of(task: dict[str, Any]) -> dict[str, Any]:
    """Return a page that was fetched for a task."""
    return {"status_code": 200, "url": task["url"], "orig_url": task["url"], "content": "text"}
