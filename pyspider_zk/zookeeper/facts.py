"""Facts about a ZooKeeper, as `survey` finds them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerAnswer:
    """What one server of ``hosts`` answers to the four-letter word ``srvr``.

    Attributes:
        address: ``host:port``.
        fault: why it cannot be reached; empty: it can.
        version: its version; empty: it does not say.
        mode: ``standalone``, ``leader``, ``follower`` or ``observer``; empty: it does not say.
    """

    address: str
    fault: str = ""
    version: str = ""
    mode: str = ""


@dataclass(frozen=True)
class ZooKeeperFacts:
    """What is known of a ZooKeeper. Times are seconds.

    Attributes:
        servers: those that ``hosts`` names.
        ensemble: how many servers its configuration has; 0: it does not say.
        latency: median of some requests that a quorum answers.
        granted: the session timeout that the server grants.
        changeable: znodes of the cluster that everybody may change.
        readable: znodes of the cluster that everybody may read.
        exists: whether there is a cluster at the root.
    """

    servers: tuple[ServerAnswer, ...]
    ensemble: int
    latency: float
    granted: float
    changeable: tuple[str, ...]
    readable: tuple[str, ...]
    exists: bool
