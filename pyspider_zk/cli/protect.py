"""The command ``protect``: gives a cluster's znodes to its login alone."""

from typing import Any

import click

from pyspider_zk.cli.target import target, with_global_options
from pyspider_zk.errors import ConfigError
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.protection import protect as protect_tree

NO_LOGIN = (
    "username: there is no login to protect the cluster with; set username and password,"
    " or PYSPIDER_ZK_USERNAME and PYSPIDER_ZK_PASSWORD_FILE"
)


@with_global_options(
    zookeeper_option="the cluster's ZooKeeper",
    data_path="the data folder of `up`",
)
@click.command()
@click.pass_obj
def protect(options: dict[str, Any]) -> None:
    """Give the cluster's znodes to its login alone.

    For a cluster that ran without a login. Processes without it wait from then on, until they
    are restarted with it.
    """
    settings = target(options).settings
    if not settings.username:
        raise ConfigError([NO_LOGIN])
    connection = Connection(settings)
    connection.start()
    try:
        count = protect_tree(connection, settings.root)
    finally:
        connection.stop()
    click.echo(f"{count} znodes at {settings.root} belong to {settings.username!r} alone")
