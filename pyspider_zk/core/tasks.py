"""What a task is, as far as the cluster must know."""

from collections.abc import Iterable
from typing import Any

from pyspider_zk.core.names import check_project_name
from pyspider_zk.errors import BadMessage

REQUIRED = ("taskid", "project", "url")


def check_task(task: object) -> None:
    """Make sure that a message is a task.

    Raises:
        BadMessage: naming what is wrong.
    """
    if not isinstance(task, dict):
        raise BadMessage(f"a task must be a mapping, this is a {type(task).__name__}")
    missing = [key for key in REQUIRED if not task.get(key)]
    if missing:
        raise BadMessage(f"a task needs {', '.join(missing)}")
    check_project_name(task["project"])


def sort_out(tasks: Iterable[Any]) -> tuple[list[Any], str]:
    """Return those that are tasks, and what is wrong with the first that is none."""
    good, fault = [], ""
    for task in tasks:
        try:
            check_task(task)
            good.append(task)
        except BadMessage as error:
            fault = fault or str(error)
    return good, fault
