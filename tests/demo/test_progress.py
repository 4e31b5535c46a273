"""How far a crawl is."""

import io

from rich.console import Console

from pyspider_zk.demo.progress import gauge


def test_without_a_terminal_there_are_some_lines_and_one_for_each_event():
    out = io.StringIO()

    with gauge(Console(file=out), total=100) as show:
        for done in range(31):
            show(done, "crawling")
        show(31, "a scheduler was killed")

    assert out.getvalue().splitlines() == [
        "crawling: 0 of 100 pages",
        "crawling: 10 of 100 pages",
        "crawling: 20 of 100 pages",
        "crawling: 30 of 100 pages",
        "a scheduler was killed: 31 of 100 pages",
    ]


def test_the_number_of_pages_may_be_unknown():
    out = io.StringIO()

    with gauge(Console(file=out), total=None) as show:
        show(7, "crawling")

    assert out.getvalue() == "crawling: 7 pages\n"


def test_on_a_terminal_there_is_a_bar():
    out = io.StringIO()

    with gauge(Console(file=out, force_terminal=True), total=100) as show:
        show(30, "crawling")

    assert "30/100" in out.getvalue()
