"""Tasks and status packs as pyspider's processor sends them, for made-up pages."""

import random
from hashlib import md5
from typing import Any

Task = dict[str, Any]

AGE = 10 * 24 * 3600  # of pyspider's sample script
SETTINGS = {"min_tick": 0, "retry_delay": {}, "crawl_config": {}}


class Links:
    """Links of pages: some to new pages, the others to pages that were told of before.

    Args:
        projects: whose pages.
        count: links of a page.
        old: of these, how many lead to what was told of before.
        seed: of the choice among those.

    Attributes:
        left: how many new pages there are still to tell of; afterwards all links are old.
    """

    def __init__(self, projects: list[str], count: int = 1, old: int = 0, seed: int = 1) -> None:
        self.projects = projects
        self.left = 0
        self._told = dict.fromkeys(projects, 0)
        self._count, self._new = count, count - old
        self._random = random.Random(seed)  # noqa: S311 - no secret

    @property
    def told(self) -> int:
        """How many pages were told of."""
        return sum(self._told.values())

    def new(self, project: str) -> Task:
        """Return a task of a page that nobody was told of."""
        self._told[project] += 1
        self.left -= 1
        return _task(project, self._told[project])

    def old(self, project: str) -> Task:
        """Return a task of a page that was told of."""
        return _task(project, self._random.randint(1, self._told[project]))

    def on_page(self, project: str) -> list[Task]:
        """Return the links of one more page."""
        new = min(self._new, self.left)
        old = self._count - self._new
        return [
            *(self.old(project) for _ in range(old)),
            *(self.new(project) for _ in range(new)),
        ]


def _task(project: str, number: int) -> Task:
    url = f"http://{project}.example/page/{number}"
    return {
        "taskid": md5(url.encode()).hexdigest(),  # noqa: S324 - pyspider's way
        "project": project,
        "url": url,
        "schedule": {"age": AGE},
        "fetch": {},
        "process": {"callback": "page"},
    }


def is_script_call(task: Task) -> bool:
    """Return whether a task only calls a script (``_on_get_info``, ``on_finished``)."""
    return str(task["url"]).startswith("data:")


def pack_of(task: Task, follows: int) -> Task:
    """Return the status pack of a task that was fetched and processed well."""
    save = SETTINGS if task["taskid"] == "_on_get_info" else None
    pack = {
        **{key: task[key] for key in ("taskid", "project", "url")},
        "track": {
            "fetch": {
                "ok": True,
                "redirect_url": None,
                "time": 0.01,
                "error": None,
                "status_code": 200,
                "encoding": "utf-8",
                "headers": {},
                "content": None,
            },
            "process": {
                "ok": True,
                "time": 0.001,
                "follows": follows,
                "result": None,
                "logs": "",
                "exception": None,
            },
            "save": save,
        },
    }
    return {**pack, "schedule": task["schedule"]} if "schedule" in task else pack
