"""The command ``pyspider-zk``: pyspider's own commands with the cluster's classes, and ours."""

import os

import click

from pyspider_zk.cli.batches import batches, events, one_batch
from pyspider_zk.cli.components import renderer
from pyspider_zk.cli.dead_letters import dead_letters
from pyspider_zk.cli.doctor import doctor
from pyspider_zk.cli.failures import failures
from pyspider_zk.cli.group import ClusterGroup, options, prepare
from pyspider_zk.cli.history import history
from pyspider_zk.cli.log_lines import logs
from pyspider_zk.cli.operations import OPERATIONS
from pyspider_zk.cli.orders import ORDERS
from pyspider_zk.cli.output import Failure
from pyspider_zk.cli.projects import projects, route
from pyspider_zk.cli.send_message import addressed
from pyspider_zk.cli.status import status
from pyspider_zk.cli.stock import adopted
from pyspider_zk.cli.tasks import one_task, tasks
from pyspider_zk.cli.up import demo, scale, up
from pyspider_zk.cli.users import user
from pyspider_zk.cli.znodes import backup, protect, restore, slots
from pyspider_zk.components.wiring import ALONE_IN_PROCESS
from pyspider_zk.errors import ConfigError
from pyspider_zk.secret_files import URL_VARIABLES, take_from_files

OWN = [
    *(status, doctor, up, scale, demo, dead_letters, protect, user, backup, restore, slots),
    *(*ORDERS, *OPERATIONS, batches, one_batch, projects, route, tasks, failures, history),
    *(one_task, events, logs),
]


def commands() -> list[click.Command]:
    """Return pyspider's commands as the cluster runs them, and the component that it adds."""
    stock = {command.name: command for command in adopted()}
    send = stock["send-message"]
    if send.callback is not None:
        send.callback = addressed(send.callback)
    return [*stock.values(), renderer]


cli = ClusterGroup(
    "pyspider-zk",
    own=OWN,
    callback=prepare,
    params=options(),
    commands=commands(),
    invoke_without_command=True,
    help="pyspider with a cluster of schedulers, joined through ZooKeeper.",
    epilog="Try it: `pyspider-zk demo`. A cluster on this machine: `pyspider-zk up`."
    " Without a command, all components run as with `pyspider-zk all`.",
)


def main() -> None:
    """Run the command."""
    try:
        take_from_files(os.environ, URL_VARIABLES)
    except ConfigError as error:
        failure = Failure(error)
        failure.show()
        raise SystemExit(failure.exit_code) from error
    cli.main(prog_name="pyspider-zk", obj={ALONE_IN_PROCESS: True})


if __name__ == "__main__":
    main()
