"""Errors of requests: which of kazoo's exceptions callers decide by, and which are answers."""

from kazoo.exceptions import (
    EXCEPTIONS,
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    SystemZookeeperError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError

__all__ = ["BadVersionError", "NoNodeError", "NodeExistsError", "NotEmptyError"]

OUTDATED = (BadVersionError, NoNodeError, NodeExistsError, NotEmptyError)
"""What ZooKeeper answers to a request that was decided on an older state: look, and decide anew.

All other errors come as ``ClusterError``: the session is lost, or the request is tried again."""

AWAY = (ConnectionLoss, KazooTimeoutError, OperationTimeoutError, SessionMovedError)
"""No server has answered."""


def take_unknown_errors() -> None:
    """Let kazoo go on after an error of a newer server, which would end it for good."""
    EXCEPTIONS.default_factory = lambda: SystemZookeeperError


def is_answer(error: object) -> bool:
    """Return whether a server answered with this error, so that the session was alive then."""
    return isinstance(error, ZookeeperError) and not isinstance(error, (*AWAY, SessionExpiredError))
