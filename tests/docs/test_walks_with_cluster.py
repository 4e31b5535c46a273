"""Walks through the pages for those who have a running cluster, with some projects."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspider.database import connect_database

from tests.docs.walk import Ground, walk
from tests.support.running_cluster import up

WITH_CLUSTER = [
    "README.md",
    "docs/api.md",
    "docs/how-to/check.md",
    "docs/how-to/look.md",
    "docs/how-to/operate.md",
    "docs/how-to/projects.md",
    *(
        f"docs/operations/{page}.md"
        for page in (
            *("README", "start", "run", "stop", "restart"),
            *("rate", "group", "status", "refetch", "delete"),
        )
    ),
]
PROJECTS = ("a", "b", "news_de", "news_fr", "news_old")
TYPED = {
    "pyspider-zk delete news_old": "news_old\n",
    "pyspider-zk delete news_de news_fr": "2\n",
}
BEFORE = dict.fromkeys(
    ("docs/operations/run.md", "docs/operations/refetch.md"), "pyspider-zk start news_de news_fr"
)
SCRIPT = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    def on_start(self):
        pass
"""

pytestmark = [
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.usefixtures("zookeeper", "redis_server"),  # skip where they are missing
]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Run a cluster in a folder."""
    folder = tmp_path_factory.mktemp("crawl")
    with up(folder, "--schedulers", "1") as running:
        renamed = {
            "http://localhost:5000/": running.webui,
            ".venv/bin/": "",
            "-c config.json doctor": "doctor",
        }
        yield Ground(folder, renamed, TYPED, BEFORE)


@pytest.mark.parametrize("page", WITH_CLUSTER)
def test_a_page_for_a_running_cluster(page: str, ground: Ground) -> None:
    _projects(ground.folder)
    walk(page, ground)


def _projects(folder: Path) -> None:
    """Make the projects that are not there, and stop those that are."""
    database = connect_database(f"sqlite+projectdb:///{folder}/data/project.db")
    row = {"status": "STOP", "script": SCRIPT, "group": "", "comments": "", "rate": 1, "burst": 3}
    for name in PROJECTS:
        if database.get(name) is None:
            database.insert(name, row)
        else:
            database.update(name, status="STOP")
