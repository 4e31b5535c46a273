"""``send-message`` without an address: any scheduler of the cluster passes the message on."""

import functools
from collections.abc import Callable
from typing import Any
from xmlrpc.client import ServerProxy

import click

from pyspider_zk.cli.target import Target, find_target
from pyspider_zk.core.names import check_project_name
from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper.directory import Directory


def addressed(send: Callable[..., Any]) -> Callable[..., Any]:
    """Return pyspider's function, which finds a scheduler by itself if none is named."""

    @functools.wraps(send)
    def find_and_send(*, scheduler_rpc: Any, project: str, **kwargs: Any) -> Any:
        check_project_name(project)
        where = find_target(click.get_current_context().obj)
        if scheduler_rpc is None and where is not None:
            scheduler_rpc = _any_scheduler(where)
        try:
            return send(scheduler_rpc=scheduler_rpc, project=project, **kwargs)
        except OSError as error:
            raise Unavailable(f"the scheduler does not answer: {error}") from error

    return find_and_send


def _any_scheduler(where: Target) -> ServerProxy:
    """Return a member of the cluster.

    Raises:
        Unavailable: the cluster does not answer, or nobody runs there.
    """
    settings = where.settings
    with Directory(settings) as directory:
        members = directory.members()
    if not members:
        raise Unavailable(f"no scheduler runs at {settings.hosts}{settings.root}")
    return ServerProxy(f"http://{members[min(members)].address}/", allow_none=True)
