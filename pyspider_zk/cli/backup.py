"""The commands ``backup`` and ``restore``: what a cluster keeps in ZooKeeper, in a file."""

from pathlib import Path
from typing import Any

import click

from pyspider_zk.backup.content import Backup, check_backup, left_out
from pyspider_zk.backup.file import read_backup, write_backup
from pyspider_zk.backup.znodes import read_cluster, write_cluster
from pyspider_zk.cli.target import sealed_in, target, with_global_options
from pyspider_zk.cli.times import moment
from pyspider_zk.config import Settings
from pyspider_zk.terminal import say
from pyspider_zk.zookeeper.connection import Connection

_FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@with_global_options(
    zookeeper_option="the cluster's ZooKeeper", data_path="the data folder of `up`"
)
@click.command()
@_FILE
@click.pass_obj
def backup(options: dict[str, Any], file: Path) -> None:
    """Write what the cluster keeps in ZooKeeper to a new FILE. The cluster may run.

    Databases and queues are not in it: back up Redis and the databases as well.
    """
    settings = target(options).settings
    connection = _connected(settings)
    try:
        found = read_cluster(connection, settings.root)
    finally:
        connection.stop()
    check_backup(found)
    write_backup(file, found)
    say(f"{_told(found)} are in {file}")


@with_global_options(
    zookeeper_option="the cluster's ZooKeeper",
    taskdb="URL of the task database, which knows the highest epoch",
    data_path="the data folder of `up`",
)
@click.command()
@_FILE
@click.option("--replace", is_flag=True, help="in place of what is there")
@click.pass_obj
def restore(options: dict[str, Any], file: Path, replace: bool) -> None:
    """Write a backup from FILE to ZooKeeper. No process of the cluster may run.

    FILE is checked completely before anything is written. What was interrupted is done again
    with --replace.
    """
    found = read_backup(file)
    settings = target(options).settings
    sealed = sealed_in(options, settings.root)
    connection = _connected(settings)
    try:
        epoch = write_cluster(connection, settings.root, found, replace=replace, sealed=sealed)
    finally:
        connection.stop()
    for path in left_out(found):
        say(f"Warning: {path} is left out: nobody can read it", err=True)
    say(f"{_told(found)} are restored at {settings.root}; epochs go on above {epoch}")


def _told(found: Backup) -> str:
    return f"{len(found.znodes)} znodes of {found.root}, as they were at {moment(found.created)},"


def _connected(settings: Settings) -> Connection:
    connection = Connection(settings)
    connection.start()
    return connection
