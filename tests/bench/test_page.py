"""The page about performance is what its figures say."""

import json
import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/internals"
SCRIPT = runpy.run_path(str(FOLDER / "draw_performance.py"))


def test_a_table_takes_the_place_of_the_former_one() -> None:
    page = "a\n<!-- ratio -->\nold\n<!-- end -->\nb\n<!-- idle -->\n<!-- end -->\n"
    filled = SCRIPT["fill"](page, {"ratio": "new", "idle": "none"})
    assert "old" not in filled
    assert filled == SCRIPT["fill"](filled, {"ratio": "new", "idle": "none"})


def test_the_page_and_its_pictures_are_of_the_figures_beside_it() -> None:
    report = json.loads((FOLDER / "performance.json").read_text(encoding="utf-8"))
    page = (FOLDER / "performance.md").read_text(encoding="utf-8")
    assert page == SCRIPT["fill"](page, SCRIPT["tables"](report))
    for name, picture in SCRIPT["pictures"](report["figures"]).items():
        assert picture == (FOLDER / name).read_text(encoding="utf-8")


def test_a_scenario_that_failed_leaves_its_table_empty() -> None:
    report = json.loads((FOLDER / "performance.json").read_text(encoding="utf-8"))
    about = {"failed": "TimeoutError", "taken_s": 1.0, "machine_load": {"before": 1.0}}
    about["run"] = {"commit": "c0ffee", "time": "today", "quick": True}
    failed = {**report, "figures": dict.fromkeys(report["figures"], about)}
    assert set(SCRIPT["tables"](failed)) == set(SCRIPT["tables"](report))
