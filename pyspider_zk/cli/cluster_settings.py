"""Command ``settings``: what the whole cluster goes by."""

import json
from dataclasses import asdict
from typing import Any

import click

from pyspider_zk.cli.batches import WHERE
from pyspider_zk.cli.ordering import opened_cluster
from pyspider_zk.cli.target import with_global_options
from pyspider_zk.cluster.cluster_settings import CHOICES, NAMES, ClusterSettings
from pyspider_zk.errors import BadRequest


@click.group("settings")
def settings() -> None:
    """Show or change what the whole cluster goes by, while it runs."""


@with_global_options(**WHERE)
@settings.command("list")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
@click.pass_obj
def show(options: dict[str, Any], as_json: bool) -> None:
    """Show the cluster-wide settings."""
    with opened_cluster(options) as opened:
        found = opened.store.read()
    click.echo(json.dumps(asdict(found)) if as_json else _lines(found))


@with_global_options(**WHERE)
@settings.command("set")
@click.argument("name")
@click.argument("value")
@click.pass_obj
def set_one(options: dict[str, Any], name: str, value: str) -> None:
    """Set lease, renewal, restart_delay, weigh_every (seconds), moves, or weigh_by (a word)."""
    given = value if name in CHOICES else _number(name, value)
    with opened_cluster(options) as opened:
        click.echo(_lines(opened.orders.set({name: given})))


@with_global_options(**WHERE)
@settings.command()
@click.argument("name")
@click.pass_obj
def unset(options: dict[str, Any], name: str) -> None:
    """Let a setting be what it is by default, or in each scheduler's configuration."""
    with opened_cluster(options) as opened:
        click.echo(_lines(opened.orders.set({name: None})))


@with_global_options(**WHERE)
@settings.command()
@click.pass_obj
def reset(options: dict[str, Any]) -> None:
    """Unset everything, pins and maintenance too; also if the znode is damaged."""
    with opened_cluster(options) as opened:
        click.echo(_lines(opened.orders.reset()))


def _number(name: str, text: str) -> float:
    """Read a number.

    Raises:
        BadRequest: it is none.
    """
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError as error:
        raise BadRequest(f"{name}: {text[:100]!r} is no number") from error


def _lines(found: ClusterSettings) -> str:
    return "\n".join(f"{name} = {_shown(getattr(found, name))}" for name in NAMES)


def _shown(value: float | str | None) -> str:
    if value is None:
        return "as each scheduler is configured"
    return value if isinstance(value, str) else f"{value:g}"
