"""Command ``upgrade``: the last step of an upgrade, after which there is no way back."""

from typing import Any

import click

from pyspider_zk.cli.batches import WHERE, user
from pyspider_zk.cli.ordering import opened_cluster
from pyspider_zk.cli.target import with_global_options


@with_global_options(**WHERE)
@click.command()
@click.pass_obj
def upgrade(options: dict[str, Any]) -> None:
    """Let the cluster go by the highest protocol that all who run speak.

    Say it when all processes are of the newer version and you will not go back: an older version
    that does not speak that protocol cannot join any more.
    """
    with opened_cluster(options) as opened:
        before, after = opened.upgrade.raise_protocol(user())
    if before == after:
        click.echo(f"the cluster goes by protocol {after} already: nobody speaks a higher one")
    else:
        click.echo(f"the cluster goes by protocol {after} now; before it was {before}")
