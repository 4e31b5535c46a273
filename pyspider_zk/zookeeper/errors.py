"""Errors of requests that ZooKeeper refuses: kazoo's exceptions, for the slices above."""

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

__all__ = ["BadVersionError", "NoNodeError", "NodeExistsError", "NotEmptyError"]
