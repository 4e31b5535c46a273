"""Target of a command: its cluster, and the global options that may follow its name."""

import getpass
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pyspider_zk.cli.group import options
from pyspider_zk.client import Client
from pyspider_zk.components.wiring import ZOOKEEPER_OPTION, names_zookeeper
from pyspider_zk.config import SECRET_FILE_VARIABLE, SECTION, Settings, settings_from
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.errors import ClusterError, ConfigError, Unavailable
from pyspider_zk.local.folder import Running, running_in, with_password, zookeeper_environ
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect

GlobalOptions = Mapping[str, Any]
"""The global options by name, with the databases as the URLs they were given as."""


@dataclass(frozen=True)
class ClusterTarget:
    """A cluster to read or change.

    Attributes:
        settings: where it is in ZooKeeper.
        message_queue: URL of its message queue; None if unknown.
    """

    settings: Settings
    message_queue: str | None


def with_global_options(
    *, data_path: str = "the data folder of `up`", **helps: str
) -> Callable[[click.Command], click.Command]:
    """Decorate a command to accept some of the global options after its name, too.

    Args:
        data_path: what the folder, which comes last, means to the command.
        helps: what each of the others means to it.
    """

    def extend(command: click.Command) -> click.Command:
        means = {**helps, "data_path": data_path}
        shared = {str(option.name): option for option in options()}
        command.params += [_again(shared[name], text) for name, text in means.items()]
        return command

    return extend


ITS_ZOOKEEPER = "the cluster's ZooKeeper"
ITS_QUEUE = "the cluster's message queue"
of_cluster = with_global_options(zookeeper_option=ITS_ZOOKEEPER)
"""Decorate a command to accept what names a cluster."""
of_queues = with_global_options(message_queue=ITS_QUEUE)
"""Decorate a command to accept what names a message queue."""
_ANY_SLOTS = 1  # whoever needs their number has it from ZooKeeper


@contextmanager
def queues_of(options: GlobalOptions, owner: ClusterTarget | None) -> Iterator[Queues]:
    """Open what does not depend on the number of slots, of the named message queue or a cluster's.

    Raises:
        ConfigError: no message queue is configured, or a cluster cannot use it.
    """
    url = message_queue_of(options) or (owner.message_queue if owner else None)
    if not url:
        raise ConfigError(
            [
                f"message queue: none is given, and no cluster runs in {options['data_path']};"
                " name one with --message-queue redis://host:6379/0"
            ]
        )
    with closing(connect(url, 0, _ANY_SLOTS)) as queues:
        yield queues


def owner_of(options: GlobalOptions) -> ClusterTarget | None:
    """Return the cluster whose message queue is meant, None if only the queue is named."""
    if message_queue_of(options) and not names_zookeeper(options):
        return None
    return find_target(options)


def client_of(options: GlobalOptions) -> Client:
    """Return a client of the command's cluster, not connected yet."""
    return Client(target(options).settings)


def user() -> str:
    """Return who gives the command, and on which machine, for the event log."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # containers may have users without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def target(options: GlobalOptions) -> ClusterTarget:
    """Return the named cluster, or else the one that ``up`` runs in this folder.

    Raises:
        Unavailable: neither.
    """
    found = find_target(options)
    if found is None:
        raise Unavailable(
            f"no cluster runs in {options['data_path']}: start one with `pyspider-zk up`,"
            " or name its ZooKeeper with --zookeeper"
        )
    return found


def find_target(options: GlobalOptions) -> ClusterTarget | None:
    """Return what `target` returns, or None."""
    running = _running(options)
    message_queue = _message_queue(options, running)
    if names_zookeeper(options):
        named = settings_of(options)
        is_it = running is not None and running.zookeeper == f"{named.hosts}{named.root}"
        return ClusterTarget(settings_of(options, running) if is_it else named, message_queue)
    if running is None:
        return None
    return ClusterTarget(settings_of(options, running), message_queue or _its_own(running))


def message_queue_of(options: GlobalOptions) -> str | None:
    """Return the message queue's URL that was given, None without one."""
    given: str | None = options["message_queue"] or options["amqp_url"]
    return given


def databases_of(options: GlobalOptions) -> dict[str, str]:
    """Return the databases' URLs by kind, as given or of the cluster that runs in this folder."""
    running = _running(options)
    known = {kind: options.get(kind) or getattr(running, kind, None) for kind in DATABASES}
    return {kind: url for kind, url in known.items() if url}


def _running(options: GlobalOptions) -> Running | None:
    """Return the cluster that runs in this folder, None if there is none.

    Raises:
        ClusterError: it is another user's, and is not named instead.
    """
    try:
        return running_in(Path(options["data_path"]))
    except ClusterError:
        if names_zookeeper(options) and message_queue_of(options):
            return None  # all that its note would have told
        raise


def sealed_in(options: GlobalOptions, root: str) -> int:
    """Return the highest epoch of a cluster in its task database, 0 if none is named.

    Raises:
        ConfigError: its URL is none that can work.
        Unavailable: it does not answer.
    """
    from pyspider_zk.tasks.highest_seal import highest_seal  # it loads SQLAlchemy

    url = databases_of(options).get("taskdb")
    try:
        return highest_seal(url, root) if url else 0
    except (LookupError, ValueError, ImportError) as error:
        raise ConfigError([f"taskdb: {error}"]) from error


def _message_queue(options: GlobalOptions, running: Running | None) -> str | None:
    """Return the URL that was given; if it is `up`'s own, then with the password made for it."""
    given = message_queue_of(options)
    is_its_own = given and running and _bare(given) == _bare(running.message_queue)
    return _its_own(running) if running and is_its_own else given


def _its_own(running: Running) -> str:
    return with_password(running.message_queue, running.redis_password_file)


def _bare(url: str) -> str:
    """Return a URL without the place of a login that it does not have."""
    return url.replace("://@", "://")


def settings_of(options: GlobalOptions, running: Running | None = None) -> Settings:
    """Return the settings.

    Args:
        running: the cluster that is meant; its secret and login count if none is configured.
    """
    section = options["config"].get(SECTION)
    zookeeper = running.zookeeper if running else options[ZOOKEEPER_OPTION]
    settings = settings_from(section, os.environ, zookeeper)
    if running is None:
        return settings
    made = {} if settings.username else zookeeper_environ(running.zookeeper_password_file)
    if running.secret_file and not settings.secret:
        made[SECRET_FILE_VARIABLE] = running.secret_file
    return settings_from(section, {**os.environ, **made}, zookeeper)


def _again(option: click.Parameter, text: str) -> click.Option:
    if not isinstance(option, click.Option):
        raise TypeError(f"{option.name} is no option")
    return click.Option(
        [option.opts[0], str(option.name)],
        metavar=option.metavar,
        help=text,
        expose_value=False,
        callback=_override,
    )


def _override(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj[param.name] = value
