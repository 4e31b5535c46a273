"""What stands for pyspider in the bench does what the published one does."""

import subprocess
import sys
from pathlib import Path

MODULE = """
import sys
from pyspider.database.sqlite.taskdb import TaskDB
from pyspider.libs.task_log import TaskLog
from pyspider.scheduler import scheduler

path, *options = sys.argv[1:]
cursor = TaskDB(path).dbcur
(mode,), = cursor.execute("PRAGMA journal_mode")
(cache,), = cursor.execute("PRAGMA cache_size")
is_patched = isinstance(scheduler.task_log, TaskLog)
print(mode, cache, TaskDB.STATEMENTS, is_patched, *options)
"""


def test_the_patches_that_make_it_faster_are_undone(tmp_path: Path) -> None:
    published = _told(tmp_path, "-m", "tests.bench.as_published", "asked")
    assert published == "delete -2000 128 False --slow"
    assert _told(tmp_path, "-m", "asked") == "persist -16384 2000 True --slow"


def _told(folder: Path, *command: str) -> str:
    """Return what a module tells of the pyspider that it is run with."""
    (folder / "asked.py").write_text(MODULE)
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, *command, str(folder / "task.db"), "--slow"],
        env={"PYTHONPATH": f"{root}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
