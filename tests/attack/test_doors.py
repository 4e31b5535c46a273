"""The tables of the attacks are those of the documentation, and a gap in them is noticed."""

import re
from pathlib import Path

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from pyspider_zk.webui.access import Access
from tests.attack.doors import LISTENS, LOOKING, PORTS, ROUTES
from tests.attack.told import routes
from tests.attack.web import unjudged

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"


def listening() -> dict[str, tuple[str, str, str]]:
    """Return the rows of the table of what listens: started by, default, who gets in."""
    text = SECURITY.read_text(encoding="utf-8").partition("## What listens")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:])
    return {name: (started, default, who) for name, started, default, who in cells}


def test_the_ports_are_those_of_the_documentation() -> None:
    rows = listening()
    told = {name: re.search(r"port (\d+)", rows[name][1]) for name in PORTS}
    assert {name: int(found[1]) for name, found in told.items() if found} == PORTS


def test_what_else_may_listen_is_off_elsewhere_or_on_free_ports() -> None:
    others = {name.partition(",")[0]: row[:2] for name, row in listening().items()}
    assert others.keys() - PORTS.keys() == {
        "XML-RPC of a fetcher",
        "metrics and health of a component",
        "PhantomJS",
        "a renderer",
        "a rendered page's gate (SOCKS)",
        "ZooKeeper",
        "the pages that are crawled",
        "pyspider's own scheduler and web UI",
    }
    assert others["XML-RPC of a fetcher"][1].startswith("off;")
    assert others["metrics and health of a component"][1] == "off"
    assert others["PhantomJS"][0].endswith("if it is installed")
    assert others["a rendered page's gate (SOCKS)"][1] == "127.0.0.1, a free port"
    assert others["ZooKeeper"][1] == "127.0.0.1, free ports"
    assert others["the pages that are crawled"][0] == "`demo`"
    assert others["pyspider's own scheduler and web UI"][0] == "`bench`, while it runs"
    assert LISTENS["fetcher"] == set()


def test_a_route_that_nobody_judged_is_reported() -> None:
    assert unjudged([*ROUTES, "/new/<project>"]) == [
        "/new/<project>: who may use it? say it in tests/attack/doors.py"
    ]


def test_what_is_mounted_or_wrapped_is_seen() -> None:
    inner, outer = Flask("inner"), Flask("outer", static_folder=None)
    inner.add_url_rule("/deep/<name>", "deep", lambda name: name)
    outer.wsgi_app = DispatcherMiddleware(  # type: ignore[method-assign]
        Access(outer.wsgi_app, None, {}),  # type: ignore[arg-type]
        {"/below": inner},
    )
    assert "/below/deep/<name>" in list(routes(outer))


def test_no_method_that_changes_counts_as_looking() -> None:
    assert {"POST", "PUT", "DELETE", "MKCOL", "LOCK"}.isdisjoint(LOOKING)
