"""The reference of metrics is written from the code as it is."""

import runpy
from pathlib import Path

from pyspider_zk.metrics.families import FAMILIES

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "internals" / "draw_metrics.py"))
PAGE = (DOCS / "how-to" / "monitor.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_that_the_script_writes() -> None:
    assert SCRIPT["page"](PAGE) == PAGE, "run docs/internals/draw_metrics.py"


def test_the_table_has_every_metric_once() -> None:
    for family in FAMILIES:
        assert PAGE.count(f"\n| `{family.full_name}` |") == 1
