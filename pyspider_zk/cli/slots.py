"""The command ``slots``: another number of slots for a stopped cluster."""

from contextlib import closing
from typing import Any

import click

from pyspider_zk.cli.target import sealed_in, target, with_global_options
from pyspider_zk.errors import ConfigError
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_reslotting import RedisReslotting
from pyspider_zk.reslot import Reslotter
from pyspider_zk.zookeeper.connection import Connection

_NO_QUEUE = (
    "message queue: name that of the cluster, whose messages must move to other slots:"
    " --message-queue redis://host:6379/0, or AMQP_URL"
)


@with_global_options(
    zookeeper_option="the cluster's ZooKeeper",
    message_queue="the cluster's message queue",
    taskdb="URL of the task database, which knows the highest epoch",
    data_path="the data folder of `up`",
)
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
    connection = Connection(where.settings)
    connection.start()
    try:
        with closing(RedisLink(where.message_queue)) as link:
            reslotter = Reslotter(connection, where.settings.root, RedisReslotting(link))
            done = reslotter.change(number, sealed)
    finally:
        connection.stop()
    click.echo(
        f"{where.settings.root} has {done.after} slots in place of {done.before}: set slots to"
        f" {done.after} for every process, then start them"
    )
