"""Exports of results by the web UI, from every database."""

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from typing import Any

import pytest

from tests.patches.databases import Databases

LOOPBACK, DEADLINE = "127.0.0.1", 60.0
ODD = ["é 漢字 \U0001f577", "half \ud800", "nul \x00", 'a "b",\r\nc', "=1+1", -1.5, None, ["x"] * 3]


@contextmanager
def web_of(**databases: Any) -> Iterator[int]:
    """Serve pyspider's pages on some databases; give the port."""
    from pyspider.libs.wsgi_server import WSGIServer
    from pyspider.webui.app import app

    config = dict(app.config)
    app.config.update(databases, scheduler_rpc=None)
    server = WSGIServer(app, 0, LOOPBACK, threads=8)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.port
    finally:
        server.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()
        app.config.clear()
        app.config.update(config)


@contextmanager
def asked(port: int, path: str) -> Iterator[HTTPResponse]:
    with closing(HTTPConnection(LOOPBACK, port, timeout=DEADLINE)) as link:
        link.request("GET", path)
        yield link.getresponse()


def exported(port: int, end: str) -> bytes:
    with asked(port, f"/results/dump/{end}") as answer:
        assert answer.status == 200
        return answer.read()


def test_all_results_are_exported_whatever_is_in_them(backend: Databases) -> None:
    resultdb = backend.connect("result")
    results = {f"http://a/{number}": {"v": value} for number, value in enumerate(ODD)}
    results |= {f"http://b/{number}": {"v": "x" * 20_000} for number in range(50)}
    for number, (url, result) in enumerate(results.items()):
        resultdb.save("p1", f"t{number}", url, result)

    with web_of(resultdb=resultdb, projectdb=backend.connect("project")) as port:
        rows = [json.loads(line) for line in exported(port, "p1.json").splitlines()]
        whole = json.loads(exported(port, "p1.json?style=full"))
        pairs = [line.split(b"\t") for line in exported(port, "p1.txt").splitlines()]
        table = exported(port, "p1.csv")
        sheet = exported(port, "p1.csv?style=spreadsheet")
        latest = exported(port, "p1.json?limit=2").splitlines()

    assert {row["url"]: row["result"] for row in rows} == results
    assert len(rows) == len(results)
    assert [list(row) for row in rows[:1]] == [["taskid", "url", "result", "updatetime"]]
    assert whole == rows
    assert {url.decode(): json.loads(text) for url, text in pairs} == results
    assert sheet == b"\xef\xbb\xbf" + table
    heading, *cells = csv.reader(io.StringIO(table.decode(), newline=""))
    assert heading == ["url", "v", "..."]
    assert {url: value for url, value, _ in cells}["http://a/1"] == "half \\ud800"
    assert len(cells) == len(results)
    assert [json.loads(line)["taskid"] for line in latest] == ["t57", "t56"]


def test_an_export_that_waits_for_its_database_keeps_no_page_waiting(
    databases: Callable[[str], Databases],
) -> None:
    files = databases("sqlite")
    resultdb, released = files.connect("result"), threading.Event()
    resultdb.BYTES_PER_PAGE = 500_000
    for number in range(100):
        resultdb.save("p1", f"t{number}", "u", "x" * 10_000)
    page_of = resultdb._page
    pages = iter([True])

    def wait_but_once(*args: Any) -> Any:
        assert next(pages, False) or released.wait(DEADLINE)
        return page_of(*args)

    resultdb._page = wait_but_once
    with (
        web_of(resultdb=resultdb, projectdb=files.connect("project")) as port,
        asked(port, "/results/dump/p1.csv") as export,
    ):
        assert export.read(12) == b"url,...\r\nu,x"
        for _ in range(20):
            with asked(port, "/debug/p1/get") as editor:
                assert editor.status == 200
        released.set()
        assert export.read().count(b"\r\n") == 100


def test_an_export_that_cannot_go_on_is_seen_to_be_cut_off(backend: Databases) -> None:
    resultdb, dropping = backend.connect("result"), backend.connect("result")
    for number in range(300):
        resultdb.save("p1", f"t{number}", "u", "x" * 100_000)
    with (
        web_of(resultdb=resultdb, projectdb=backend.connect("project")) as port,
        asked(port, "/results/dump/p1.json") as export,
    ):
        assert export.read(10)
        dropping.drop("p1")
        with pytest.raises(IncompleteRead):
            export.read()
