"""The command ``send-message``, which finds a scheduler of the cluster by itself."""

import functools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from xmlrpc.client import Fault, ProtocolError

import click

from pyspider_zk.cli.target import ClusterTarget, find_target
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.rpc.client import credentials_of
from pyspider_zk.rpc.router import Router


def addressed(send: Callable[..., Any]) -> Callable[..., Any]:
    """Return pyspider's function, extended to find a scheduler if none is named."""

    @functools.wraps(send)
    def find_and_send(*, scheduler_rpc: Any, project: str, **kwargs: Any) -> Any:
        check_project_name(project)
        where = find_target(click.get_current_context().obj)
        try:
            if scheduler_rpc is not None or where is None:
                return send(scheduler_rpc=scheduler_rpc, project=project, **kwargs)
            with _schedulers(where) as router:
                return send(scheduler_rpc=router, project=project, **kwargs)
        except OSError as error:
            raise Unavailable(f"the scheduler does not answer: {error}") from error
        except ProtocolError as error:  # its URL may contain the secret
            status = f"{error.errcode} {error.errmsg}"
            raise Unavailable(f"the scheduler does not answer: {status}") from None
        except Fault as fault:
            raise ClusterError(f"the scheduler refuses: {fault.faultString}") from fault

    return find_and_send


@contextmanager
def _schedulers(where: ClusterTarget) -> Iterator[Router]:
    """Open a router to the schedulers of the cluster.

    Raises:
        ConfigError: the credentials for calling schedulers are unusable.
        Unavailable: the cluster does not answer, or no scheduler runs.
    """
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
