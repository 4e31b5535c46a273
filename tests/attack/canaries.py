"""What is planted in a cluster, so that an answer which tells it is known."""

from collections.abc import Mapping

from pyspider.database import connect_database

KEPT, LOCKED = "kept", "locked"
"""Two projects; the second is locked."""

TASK = "canarytask"
SCRIPT_CANARY = "canary_of_the_script"
URL_CANARY = "http://canary-of-the-task.example/"
RESULT_CANARY = "canary-of-the-result"

MEMBERS_ONLY = (SCRIPT_CANARY, URL_CANARY, RESULT_CANARY)
"""What whoever may look sees, and nobody else."""

SCRIPT = f"""from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    {SCRIPT_CANARY} = 1

    def on_start(self):
        pass
"""


def plant(databases: Mapping[str, str]) -> None:
    """Make the projects, each with a task and a result; nothing of them is due."""
    made = {kind: connect_database(url) for kind, url in databases.items()}
    for name, group in ((KEPT, ""), (LOCKED, "lock")):
        row = {"status": "STOP", "script": SCRIPT, "group": group, "comments": ""}
        made["project"].insert(name, {**row, "rate": 1, "burst": 1})
        task = {"taskid": TASK, "project": name, "url": URL_CANARY, "status": 2}
        more = {"schedule": {}, "fetch": {}, "process": {"callback": "on_start"}, "track": {}}
        made["task"].insert(name, TASK, {**task, **more, "lastcrawltime": 1})
        made["result"].save(name, TASK, URL_CANARY, {"canary": RESULT_CANARY})
    for database in made.values():
        if database.conn is not None:
            database.conn.close()
