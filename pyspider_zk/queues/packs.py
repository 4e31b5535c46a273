"""Packs between scheduler, fetcher, processor and result worker: checks of what each relies on."""

import json
from collections.abc import Mapping
from typing import Any

from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.queues.tasks import DEEPEST, REQUIRED, is_deeper, is_whole

NO_ANSWER = 599  # pyspider's status of a page that was not fetched


def check_named(task: object) -> None:
    """Make sure that a message names its task.

    Raises:
        BadMessage: the message names what is wrong.
    """
    if not isinstance(task, dict):
        raise BadMessage(f"is no task but a {type(task).__name__}")
    check_project_name(task.get("project"))
    for key in ("taskid", "url"):
        if not isinstance(task.get(key), str) and not (key == "taskid" and is_whole(task.get(key))):
            raise BadMessage(f"{key} must be text, not {task.get(key)!r:.80}")
    if is_deeper(task, DEEPEST):
        raise BadMessage(f"is nested deeper than {DEEPEST} levels")


def check_fetchable(task: object) -> None:
    """Make sure that a request to fetch names its URL and valid options.

    Raises:
        BadMessage: the message names what is wrong.
    """
    if not isinstance(task, dict):
        raise BadMessage(f"is no task but a {type(task).__name__}")
    if not isinstance(task.get("url"), str):
        raise BadMessage(f"needs url, as text, not a {type(task.get('url')).__name__}")
    if not isinstance(task.get("fetch", {}), dict):
        raise BadMessage(f"fetch must be a mapping, not a {type(task['fetch']).__name__}")


def check_pair(body: object) -> None:
    """Make sure that a message is a pair: a task, and its page or result.

    Raises:
        BadMessage: the message names what is wrong.
    """
    if not isinstance(body, list | tuple) or len(body) != 2:
        raise BadMessage(f"is no task with its page or result but a {type(body).__name__}")
    check_named(body[0])


def check_result(result: object) -> None:
    """Make sure that a database can store a result.

    Raises:
        BadMessage: the message names what is wrong.
    """
    if is_deeper(result, DEEPEST):
        raise BadMessage(f"is nested deeper than {DEEPEST} levels")
    try:
        json.dumps(result)
    except (TypeError, ValueError) as error:
        raise BadMessage(f"cannot be stored: {brief(error)}") from None


def failed_page(task: Mapping[str, Any], error: object) -> dict[str, Any]:
    """Return the page that a fetcher sends for a task that it could not fetch."""
    fetch = task.get("fetch")
    return {
        "status_code": NO_ANSWER,
        "error": brief(error),
        "content": "",
        "time": 0,
        "orig_url": task["url"],
        "url": task["url"],
        "save": fetch.get("save") if isinstance(fetch, dict) else None,
    }


def failed_pack(task: Mapping[str, Any], error: object) -> dict[str, Any]:
    """Return the status pack that a processor sends for a task that it could not process."""
    told, asked = brief(error), task.get("process")
    processed = {"ok": False, "time": 0, "follows": 0, "logs": told, "exception": told}
    pack: dict[str, Any] = {
        **{key: task[key] for key in REQUIRED},
        "track": {
            "fetch": {"ok": False, "time": 0, "status_code": NO_ANSWER, "error": told},
            "process": {**processed, "callback": asked.get("callback")}
            if isinstance(asked, dict)
            else processed,
            "save": None,
        },
    }
    if isinstance(task.get("schedule"), dict):
        pack["schedule"] = task["schedule"]
    return pack


def named(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a task that can always be sent: its id, and what its script is to do."""
    return {key: task[key] for key in (*REQUIRED, "process", "schedule") if key in task}


def who(body: object) -> str:
    """Return a phrase with project and task of a message, if it has them."""
    task = body[0] if isinstance(body, list | tuple) and body else body
    if not isinstance(task, dict):
        return "of nobody"
    return f"of {task.get('project')!r:.80} task {task.get('taskid')!r:.80}"
