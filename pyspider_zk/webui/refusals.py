"""Refusals by members, as answers of pyspider's pages."""

import functools
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from xmlrpc.client import Fault

from werkzeug.exceptions import Forbidden

from pyspider_zk.rpc.router import Router


class Answering:
    """The cluster with the methods that pyspider's views call, and the errors that they handle.

    Threads: any.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ask: Callable[..., Any] = getattr(self._router, name)

        @functools.wraps(ask)
        def answer(*args: Any) -> Any:
            try:
                return ask(*args)
            except Fault as fault:
                if fault.faultCode == HTTPStatus.FORBIDDEN:
                    raise Forbidden(fault.faultString) from fault
                raise

        return answer
