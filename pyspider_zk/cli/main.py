"""The command ``pyspider-zk``: pyspider's own commands on the cluster's classes, and our own."""

import click

from pyspider_zk.cli.commands import OWN
from pyspider_zk.cli.group import ClusterGroup, options, prepare
from pyspider_zk.cli.message import addressed
from pyspider_zk.cli.stock import adopted


def commands() -> list[click.Command]:
    """Return pyspider's commands as the cluster runs them."""
    stock = {command.name: command for command in adopted()}
    send = stock["send-message"]
    if send.callback is not None:
        send.callback = addressed(send.callback)
    return [*stock.values()]


cli = ClusterGroup(
    "pyspider-zk",
    own=OWN,
    callback=prepare,
    params=options(),
    commands=commands(),
    invoke_without_command=True,
    help="pyspider with a cluster of schedulers, joined through ZooKeeper.",
    epilog="A first look: `pyspider-zk demo`. A cluster on this machine: `pyspider-zk up`."
    " Without a command, all components run as with `pyspider-zk all`.",
)


def main() -> None:
    """Run the command."""
    cli.main(prog_name="pyspider-zk")


if __name__ == "__main__":
    main()
