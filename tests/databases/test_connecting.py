"""A component that starts while its database is away waits for it."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest
from pyspider.database import connect_database
from pyspider.libs.utils import Get, ObjectDict

from pyspider_zk.cli.stock import adopt
from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.connecting import connect_patiently
from tests.scheduling.test_databases_away import locked
from tests.support.stand_ins import running


def test_it_waits_while_another_process_has_locked_the_file(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    file = tmp_path / "project.db"
    sqlite3.connect(file).close()
    breaker = Breaker("projectdb")
    found: list[Any] = []
    tried: list[float] = []

    def connect() -> Any:
        return connect_patiently(
            lambda: connect_database(f"sqlite+projectdb:///{file}"), breaker, wait
        )

    def wait(seconds: float) -> None:
        tried.append(seconds)

    with ExitStack() as connecting:
        with locked(file):
            connecting.enter_context(running(lambda: found.append(connect())))
            eventually(lambda: tried)
            assert found == []
        eventually(lambda: found)

    assert list(found[0].get_all()) == []
    assert not breaker.is_open


@pytest.mark.parametrize("url", ["nonsense://x", "sqlite+nodb:///x.db"])
def test_what_is_no_outage_is_raised(url: str) -> None:
    with pytest.raises(Exception, match=r"nonsense|unknown database|unknown engine"):
        connect_patiently(lambda: connect_database(url), Breaker("taskdb"), lambda _: None)


def test_adopted_commands_connect_patiently() -> None:
    lost = [sqlite3.OperationalError("locked"), sqlite3.OperationalError("locked")]

    def connect() -> str:
        if lost:
            raise lost.pop()
        return "connected"

    command = adopt(
        click.Command("fetcher", callback=lambda **_: click.get_current_context().obj.taskdb)
    )
    context = click.Context(command, obj=ObjectDict(taskdb=Get(connect)))

    assert command.callback is not None
    with context:
        assert command.callback(fetcher_cls="pyspider_zk.hooks.ClusterFetcher") == "connected"
    assert lost == []
