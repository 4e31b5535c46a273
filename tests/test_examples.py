"""The examples of the documentation run, and say what stands there."""

import subprocess
import sys
from pathlib import Path

import pytest

from pyspider_zk.config import Settings

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.zk
@pytest.mark.parametrize(
    ("program", "page"),
    [("four_processes.py", "controller.md"), ("job_queue.py", "job-queue.md")],
)
def test_an_example_says_what_its_page_says(program: str, page: str, cluster_settings: Settings):
    answer = subprocess.run(
        [
            sys.executable,
            str(DOCS / "examples" / program),
            cluster_settings.hosts,
            cluster_settings.root,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert answer.stderr == ""
    assert answer.returncode == 0
    assert f"\n{answer.stdout}" in (DOCS / page).read_text()
