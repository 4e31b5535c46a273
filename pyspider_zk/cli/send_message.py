"""``send-message`` without an address: any scheduler of the cluster passes the message on."""

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
    """Return pyspider's function, which finds a scheduler by itself if none is named."""

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
        except ProtocolError as error:  # whose URL may have the secret in it
            told = f"{error.errcode} {error.errmsg}"
            raise Unavailable(f"the scheduler does not answer: {told}") from None
        except Fault as fault:
            raise ClusterError(f"the scheduler refuses: {fault.faultString}") from fault

    return find_and_send


@contextmanager
def _schedulers(where: ClusterTarget) -> Iterator[Router]:
    """Lend what asks the schedulers of the cluster.

    Raises:
        ConfigError: what schedulers are called with is of no use.
        Unavailable: the cluster does not answer, or nobody runs there.
    """
    settings = where.settings
    asking = credentials_of(settings)
    asking.check()
    with (
        Directory(settings) as directory,
        closing(Router(directory.read, credentials=asking)) as router,
    ):
        if not directory.members():
            raise Unavailable(f"no scheduler runs at {settings.hosts}{settings.root}")
        yield router
