"""Two versions side by side: one that speaks protocol 1, and one that speaks 2 as well."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from pyspider_zk.cluster.records import Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Mismatch
from tests.integration.conftest import Crawl
from tests.support.connected import connected
from tests.support.processes import PROGRAM, ROOT, process

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

NAMES = [f"p{number}" for number in range(6)]
COMPONENTS = ("fetcher", "processor", "result-worker")
SPOKEN = "LOWEST, HIGHEST = FIRST, FIRST"


@pytest.fixture
def newer(tmp_path: Path) -> tuple[str, ...]:
    """Give the command of a copy of this version that speaks protocols 1 and 2."""
    copy = tmp_path / "newer"
    shutil.copytree(ROOT / "pyspider_zk", copy / "pyspider_zk")
    module = copy / "pyspider_zk/cluster/protocols.py"
    said = module.read_text(encoding="utf-8")
    assert said.count(SPOKEN) == 1
    module.write_text(said.replace(SPOKEN, "LOWEST, HIGHEST = FIRST, 2"), encoding="utf-8")
    return ("env", f"PYTHONPATH={copy}", sys.executable, "-m", "pyspider_zk.cli.main")


def said(crawl: Crawl, program: tuple[str, ...], folder: Path, *words: str) -> tuple[int, str]:
    """Return the exit code of a command of one of the versions, and what it said."""
    with process("-c", crawl.config(), *words, folder=folder, program=program) as child:
        text, _ = child.communicate()
        return child.returncode, text


def stop(child: Popen[str]) -> None:
    child.terminate()
    assert child.wait() == 0


def owned(crawl: Crawl, child: Popen[str]) -> int:
    owners = Counter(row.owner for row in crawl.directory.read().assignment.slots)
    return owners[crawl.member(child)]


def test_a_protocol_is_raised_while_a_crawl_goes_on(
    crawl: Crawl,
    newer: tuple[str, ...],
    cluster_settings: Settings,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    old = crawl.scheduler()
    workers = [crawl.start(component) for component in COMPONENTS]
    new = crawl.scheduler(program=newer)
    crawl.settled(len(COMPONENTS))
    assert min(owned(crawl, old), owned(crawl, new)) > 0, "both versions own slots"
    crawl.run_projects(NAMES)

    crawl.wait_for(100)
    code, text = said(crawl, newer, tmp_path, "upgrade")
    assert code == 2
    assert "the cluster goes by protocol 1, and 2 is spoken by some only; 4 do not" in text
    assert "protocol 1, and 2 waits for " in said(crawl, newer, tmp_path, "status")[1]

    another = crawl.scheduler(program=newer)
    crawl.settled(len(COMPONENTS))
    stop(old)
    successors = [crawl.start(component, program=newer) for component in COMPONENTS]
    for worker in workers:
        stop(worker)
    eventually(lambda: not crawl.directory.read().held_back_by())
    crawl.settled(len(COMPONENTS))
    assert (
        "all speak a higher one: `pyspider-zk upgrade`" in said(crawl, newer, tmp_path, "status")[1]
    )
    code, text = said(crawl, newer, tmp_path, "upgrade")
    assert (code, text.splitlines()[-1]) == (
        0,
        "the cluster goes by protocol 2 now; before it was 1",
    )

    words = ("scheduler", "--xmlrpc-host", "127.0.0.1", "--xmlrpc-port", "0")
    for component in (words, ("fetcher",)):
        code, text = said(crawl, PROGRAM, tmp_path, *component)
        assert code == Mismatch.exit_code
        assert "goes by protocol 2, this version speaks protocol 1: it is too old" in text
    assert all(each.poll() is None for each in (new, another, *successors))
    crawl.wait_for(100)
    crawl.end()

    meta = _meta(cluster_settings)
    assert meta == Meta(cluster_settings.slots, 2)


def _meta(settings: Settings) -> Meta:
    with connected(settings) as connection:
        return Meta.decode(connection.get(Tree(settings.root).meta)[0])
