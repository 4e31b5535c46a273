"""The demo on a site that a test makes."""

import io
import json
import random

import pytest
from rich.console import Console

from pyspider_zk.demo.demo import demo

FOLDERS = ("", "a/", "b/", "c/")
PAGES = 40  # per folder


@pytest.fixture
def site(tmp_path):
    """Make a site in which every page can be reached, mostly over other folders."""
    chosen = random.Random(1)  # noqa: S311 - no secret
    names = [f"{folder}{number}.html" for folder in FOLDERS for number in range(PAGES)]
    chosen.shuffle(names)
    names.insert(0, "index.html")
    for at, name in enumerate(names):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        targets = {*names[2 * at + 1 : 2 * at + 3], *chosen.sample(names, 5), "dead/link.html"}
        links = "".join(f'<a href="/{target}#x">x</a>' for target in sorted(targets))
        file.write_text(f"<title>{name}</title>{links}", encoding="utf-8")
    (tmp_path / "alone.html").write_text("nobody links here", encoding="utf-8")
    return tmp_path


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.usefixtures("zookeeper", "redis_server")  # skip where they are missing
def test_nothing_is_missing_after_a_scheduler_was_killed(site):
    out = io.StringIO()

    outcome = demo(site, None, Console(file=out))

    told = json.loads(outcome.as_json())
    assert told["expected"] == told["crawled"] == len(FOLDERS) * PAGES + 1
    assert told["missing"] == 0
    assert told["killed"] == 1
    assert told["moved_slots"] > 0
    assert told["takeover_s"] > 0
    assert outcome.complete
    assert "kept in" not in out.getvalue()
