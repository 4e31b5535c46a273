"""Connection to ZooKeeper for a test that waits between its steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection

SESSION = 20.0
"""Seconds; a busy machine must not end it."""


@contextmanager
def connected(settings: Settings) -> Iterator[Connection]:
    """Connect while the block runs."""
    made = Connection(replace(settings, session=SESSION))
    made.start()
    try:
        yield made
    finally:
        made.stop()
