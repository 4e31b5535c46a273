"""Journal: writes what users did in the web UI to the event log."""

import logging
from collections.abc import Callable
from typing import Any

from pyspider_zk.cluster.events import Event
from pyspider_zk.errors import ClusterError

logger = logging.getLogger(__name__)

Append = Callable[[Event], Any]
"""Function that writes an event; may raise ``ClusterError``."""


def record(append: Append, event: Event) -> None:
    """Append to the event log; if that is away, the event goes to the log of the process.

    Blocks for some seconds at most.
    """
    try:
        append(event)
    except ClusterError as error:
        by = event.who or "somebody who is not logged in"
        logger.warning("%s by %s; it is not in the event log: %s", event.text, by, error)
