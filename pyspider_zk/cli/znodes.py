"""Commands about what a cluster keeps in ZooKeeper: backup, restore, protect, slots."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from pyspider_zk.backup.content import Backup, check_backup, left_out
from pyspider_zk.backup.file import read_backup, write_backup
from pyspider_zk.backup.znodes import read_cluster, write_cluster
from pyspider_zk.cli.output import moment
from pyspider_zk.cli.target import (
    ITS_QUEUE,
    ITS_ZOOKEEPER,
    ClusterTarget,
    of_cluster,
    sealed_in,
    target,
    with_global_options,
)
from pyspider_zk.errors import ConfigError
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_reslotting import RedisReslotting, Reslotting
from pyspider_zk.reslot import Reslotter
from pyspider_zk.terminal import say
from pyspider_zk.zookeeper.connection import Connection, connected
from pyspider_zk.zookeeper.protection import protect as protect_tree

_FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_TASKDB = "URL of the task database, which knows the highest epoch"
_NO_LOGIN = (
    "username: there is no login to protect the cluster with; set username and password,"
    " or PYSPIDER_ZK_USERNAME and PYSPIDER_ZK_PASSWORD_FILE"
)
_NO_QUEUE = (
    "message queue: name that of the cluster, whose messages must move to other slots:"
    " --message-queue redis://host:6379/0, or AMQP_URL"
)


@of_cluster
@click.command()
@_FILE
@click.pass_obj
def backup(options: dict[str, Any], file: Path) -> None:
    """Write what the cluster keeps in ZooKeeper to a new FILE. The cluster may run.

    Databases and queues are not in it: back up Redis and the databases as well.
    """
    settings = target(options).settings
    with connected(settings) as connection:
        found = read_cluster(connection, settings.root)
    check_backup(found)
    write_backup(file, found)
    say(f"{_told(found)} are in {file}")


@with_global_options(zookeeper_option=ITS_ZOOKEEPER, message_queue=ITS_QUEUE, taskdb=_TASKDB)
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
    where = target(options)
    settings = where.settings
    sealed = sealed_in(options, settings.root)
    with connected(settings) as connection:
        begun = _unfinished(connection, where)
        epoch = write_cluster(connection, settings.root, found, replace=replace, sealed=sealed)
    for path in left_out(found):
        say(f"Warning: {path} is left out: nobody can read it", err=True)
    say(f"{_told(found)} are restored at {settings.root}; epochs go on above {epoch}")
    if begun:
        say(
            f"Warning: a change to {begun.after} slots was interrupted: complete it before any"
            f" process starts, with `pyspider-zk slots {begun.after}`",
            err=True,
        )


@of_cluster
@click.command()
@click.pass_obj
def protect(options: dict[str, Any]) -> None:
    """Give the cluster's znodes to its login alone.

    For a cluster that ran without a login. Processes without it wait from then on, until they
    are restarted with it.
    """
    settings = target(options).settings
    if not settings.username:
        raise ConfigError([_NO_LOGIN])
    with connected(settings) as connection:
        count = protect_tree(connection, settings.root)
    click.echo(f"{count} znodes at {settings.root} belong to {settings.username!r} alone")


@with_global_options(zookeeper_option=ITS_ZOOKEEPER, message_queue=ITS_QUEUE, taskdb=_TASKDB)
@click.command()
@click.argument("number", type=click.IntRange(1, MOST_SLOTS))
@click.pass_obj
def slots(options: dict[str, Any], number: int) -> None:
    """Change the NUMBER of slots of a stopped cluster.

    Messages that wait move to the new slots. What was interrupted goes on if you say the same
    again.
    """
    where = target(options)
    if not where.message_queue:
        raise ConfigError([_NO_QUEUE])
    sealed = sealed_in(options, where.settings.root)
    with (
        connected(where.settings) as connection,
        closing(RedisLink(where.message_queue)) as link,
    ):
        reslotter = Reslotter(connection, where.settings.root, RedisReslotting(link))
        done = reslotter.change(number, sealed)
    click.echo(
        f"{where.settings.root} has {done.after} slots in place of {done.before}: set slots to"
        f" {done.after} for every process, then start them"
    )


def _unfinished(connection: Connection, where: ClusterTarget) -> Reslotting | None:
    """Return what `Reslotter.unfinished` does, None without a message queue to ask."""
    if not where.message_queue:
        return None
    with closing(RedisLink(where.message_queue)) as link:
        return Reslotter(connection, where.settings.root, RedisReslotting(link)).unfinished()


def _told(found: Backup) -> str:
    return f"{len(found.znodes)} znodes of {found.root}, as they were at {moment(found.created)},"
