"""The demo on a site that a test makes."""

import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler
from threading import Thread

import pytest
from rich.console import Console

from pyspider_zk.demo.demo import DemoOutcome, demo, waiting_for
from pyspider_zk.demo.site import SiteServer

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
def test_nothing_is_missing_after_a_scheduler_and_workers_were_killed(site):
    out = io.StringIO()

    outcome = demo(site, None, Console(file=out))

    told = json.loads(outcome.as_json())
    assert told["expected"] == told["crawled"] == len(FOLDERS) * PAGES + 1
    assert told["missing"] == 0
    assert (told["killed"], told["killed_workers"]) == (1, 3)
    assert told["moved_slots"] > 0
    assert told["takeover_s"] > 0
    assert outcome.complete
    assert "kept in" not in out.getvalue()


class Unwilling(SimpleHTTPRequestHandler):
    """Serves a folder, but refuses a page the first two times."""

    def __init__(self, asked: Counter, *args, **options) -> None:
        self._asked = asked
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._asked[self.path] += 1
        if self.path == "/last.html" and self._asked[self.path] <= 2:
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def unwilling(folder) -> Iterator[str]:
    """Serve the folder; give the address of its start page."""
    with SiteServer(("127.0.0.1", 0), partial(Unwilling, Counter(), directory=folder)) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
        server.shutdown()
        thread.join()


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.usefixtures("zookeeper", "redis_server")
def test_a_page_that_must_be_fetched_again_is_waited_for_with_a_word(tmp_path):
    (tmp_path / "index.html").write_text('<a href="last.html">x</a>', encoding="utf-8")
    (tmp_path / "last.html").write_text("x", encoding="utf-8")
    out = io.StringIO()

    with unwilling(tmp_path) as start:
        outcome = demo(None, start, Console(file=out))

    assert outcome.crawled == 2
    assert "Waiting for 1 page; the next retry is in " in out.getvalue()


@pytest.mark.parametrize(
    ("pages", "retry", "words"),
    [
        (1, 3.2, "Waiting for 1 page; the next retry is in 4 s"),
        (2, None, "Waiting for 2 pages; a fetch may take 30 s"),
    ],
)
def test_what_is_waited_for_is_said_in_words(pages, retry, words):
    assert waiting_for(pages, retry) == words


OUTCOME = DemoOutcome(
    expected=2,
    crawled=2,
    missing=0,
    schedulers=3,
    killed=1,
    killed_workers=3,
    moved_slots=90,
    takeover_s=5.2,
    duplicate_fetches=1,
    seconds=20.1,
)


def test_the_outcome_is_one_line_of_json_in_a_fixed_order():
    assert json.loads(OUTCOME.as_json()) == {
        "expected": 2,
        "crawled": 2,
        "missing": 0,
        "schedulers": 3,
        "killed": 1,
        "killed_workers": 3,
        "moved_slots": 90,
        "takeover_s": 5.2,
        "duplicate_fetches": 1,
        "seconds": 20.1,
    }
    assert "\n" not in OUTCOME.as_json()


def test_the_table_says_in_words_what_each_value_of_the_line_is() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(OUTCOME.as_table())

    rows = [line.split(maxsplit=2) for line in out.getvalue().splitlines()]
    told = json.loads(OUTCOME.as_json())
    assert {name: value for name, value, _ in rows} == {key: str(told[key]) for key in told}
    assert all(len(words.split()) > 3 for _, _, words in rows)


@pytest.mark.parametrize(
    ("change", "complete"),
    [
        ({}, True),
        ({"missing": 1}, False),
        ({"expected": None, "missing": None}, True),
        ({"expected": None, "missing": None, "crawled": 0}, False),
    ],
)
def test_a_crawl_is_complete_when_pages_were_crawled_and_none_is_missing(change, complete):
    assert replace(OUTCOME, **change).complete is complete
