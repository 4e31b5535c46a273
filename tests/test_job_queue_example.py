"""The example of the job queue runs as it stands there."""

import subprocess
import sys
from pathlib import Path

import pytest

from pyspider_zk.config import Settings

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.zk
def test_all_jobs_are_done_although_one_process_dies(cluster_settings: Settings):
    program = DOCS / "examples" / "job_queue.py"
    answer = subprocess.run(
        [sys.executable, str(program), cluster_settings.hosts, cluster_settings.root],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert answer.stderr == ""
    assert answer.returncode == 0
    assert f"\n{answer.stdout}" in (DOCS / "job-queue.md").read_text()
