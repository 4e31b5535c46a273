"""The tables of the attacks are those of the documentation, and a gap in them is noticed."""

import re
from pathlib import Path

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from pyspider_zk.webui.access import Access
from tests.attack.doors import LISTENS, LOOKING, PORTS, ROUTES, SERVERS_OF_UP_ARE_OPEN
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
    told = {name: re.search(r"port (\d+)", row[1]) for name, row in listening().items()}
    assert {name: int(found[1]) for name, found in told.items() if found} == PORTS


def test_what_has_no_port_there_is_off_or_free() -> None:
    others = {name: row[1] for name, row in listening().items() if name not in PORTS}
    assert others == {
        "XML-RPC of a fetcher": "off",
        "ZooKeeper, Redis": "127.0.0.1, free ports",
    }
    assert LISTENS["fetcher"] == set()


def test_who_gets_into_the_servers_of_up_is_what_the_documentation_says() -> None:
    _, _, who = listening()["ZooKeeper, Redis"]
    assert (who == "everybody on this machine") == SERVERS_OF_UP_ARE_OPEN


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
