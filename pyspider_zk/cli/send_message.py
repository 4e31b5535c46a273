"""The command ``send-message``, which finds a scheduler of the cluster by itself."""

import functools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from xmlrpc.client import Fault, ProtocolError

import click

from pyspider_zk.cli.checks import check_scheduler_link
from pyspider_zk.cli.target import ClusterTarget, find_target
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.rpc.client import credentials_of
from pyspider_zk.rpc.router import Router


def addressed(send: Callable[..., Any]) -> Callable[..., Any]:
    """Return pyspider's function, extended to find a scheduler if none is named."""

    @functools.wraps(send)
    def find_and_send(*, scheduler_rpc: Any, project: str, **kwargs: Any) -> None:
        check_project_name(project)
        where = find_target(click.get_current_context().obj)
        try:
            with _schedulers(scheduler_rpc, where) as rpc:
                is_sent = send(scheduler_rpc=rpc, project=project, **kwargs)
        except OSError as error:
            raise Unavailable(f"the scheduler does not answer: {error}") from error
        except ProtocolError as error:  # its URL may contain the secret
            status = f"{error.errcode} {error.errmsg}"
            raise Unavailable(f"the scheduler does not answer: {status}") from None
        except Fault as fault:
            raise ClusterError(f"the scheduler refuses: {fault.faultString}") from fault
        if not is_sent:
            raise ClusterError(f"there is no project {project!r}")

    return find_and_send


@contextmanager
def _schedulers(named: Any, where: ClusterTarget | None) -> Iterator[Any]:
    """Open what speaks to the scheduler that was named, or to those of the cluster if one is.

    Raises:
        ConfigError: the credentials for calling schedulers, or what names one, are unusable.
        Unavailable: the cluster does not answer, or no scheduler runs.
    """
    if named is not None:
        yield named
        return
    if where is None:
        check_scheduler_link()
        yield None  # pyspider finds it at its usual place
        return
    settings = where.settings
    credentials = credentials_of(settings)
    credentials.check()
    with (
        Directory(settings) as directory,
        closing(Router(directory.read, credentials=credentials)) as router,
    ):
        if not directory.members():
            raise Unavailable(f"no scheduler runs at {settings.hosts}{settings.root}")
        yield router
