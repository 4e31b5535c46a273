"""What can go wrong, as one tree.

::

    ClusterError                 every error of this package; exit code 1
    ├── ConfigError              settings that cannot work, all of them at once; exit code 2
    ├── Unavailable              ZooKeeper or the message queue does not answer; exit code 3
    ├── Mismatch                 the cluster was born with other values; exit code 4
    ├── MissingService           a program that must be installed first; exit code 5
    ├── BadMessage               a queue message that is no task
    ├── GateClosed               an effect was stopped: the lease or the slot is gone
    └── SessionLost              the ZooKeeper session ended; what it held is not ours any more
"""

from collections.abc import Sequence


class ClusterError(Exception):
    """Root of all errors that this package raises on purpose."""

    exit_code = 1


class ConfigError(ClusterError):
    """Settings that cannot work.

    Attributes:
        faults: one sentence per fault, each naming the setting and the remedy.
    """

    exit_code = 2

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Unavailable(ClusterError):
    """ZooKeeper or the message queue does not answer."""

    exit_code = 3


class Mismatch(ClusterError):
    """The cluster was born with another protocol or slot count than this process has."""

    exit_code = 4


class MissingService(ClusterError):
    """A program is not installed; the message says how to install it."""

    exit_code = 5


class BadMessage(ClusterError):
    """A queue message that is no task; it goes to the dead letters with this reason."""


class GateClosed(ClusterError):
    """An effect was stopped because the lease ended or the slot is not owned any more."""


class SessionLost(ClusterError):
    """The ZooKeeper session ended: everything held under it belongs to nobody now."""
