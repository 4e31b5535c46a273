"""Errors, as one tree.

::

    ClusterError                 every error of this package; exit code 1
    ├── ConfigError              settings that cannot work, all of them at once; exit code 2
    ├── Unavailable              ZooKeeper or the message queue does not answer; exit code 3
    │   ├── DatabaseAway         a database does not answer; its breaker is open
    │   └── Refused              it answers, but not to our login; exit code 6
    ├── Mismatch                 the cluster was born with other values; exit code 4
    ├── MissingService           a program that must be installed first; exit code 5
    ├── BadMessage               a queue message that is no task
    ├── BadRequest               what is asked for cannot be done; names the culprit and the remedy
    │   ├── NotFound             it is about something that there is not
    │   └── Conflict             its id stands for something else already
    ├── LockedProjects           projects that only who is logged in may change
    ├── FenceClosed               an effect was stopped: the lease or the slot is gone
    ├── SessionLost              the ZooKeeper session ended; what it held is not ours any more
    ├── NameTaken                a name that only one may hold, and another holds
    ├── TimedOut                 what was waited for did not happen in time
    │   └── Missing              because some did not come; it names them
    ├── JobLost                  a job that another holds now
    └── BatchTaken               a batch that was begun with other jobs
"""

from collections.abc import Sequence
from http import HTTPStatus


class ClusterError(Exception):
    """Root of all errors that this package raises on purpose.

    Attributes:
        exit_code: of a command that ends with it.
        status: of an answer by HTTP, and the fault code of one by XML-RPC.
    """

    exit_code = 1
    status = HTTPStatus.INTERNAL_SERVER_ERROR


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
    status = HTTPStatus.SERVICE_UNAVAILABLE


class DatabaseAway(Unavailable):
    """A database does not answer; what needs it waits, and nothing is at fault for that."""


class Refused(Unavailable):
    """ZooKeeper, the message queue or a database refuses our login, or we its certificate.

    To what runs it is as if nobody answered, and may mend itself; what starts ends.
    """

    exit_code = 6


class Mismatch(ClusterError):
    """The cluster was born with another protocol or slot count than this process has."""

    exit_code = 4
    status = HTTPStatus.SERVICE_UNAVAILABLE


class MissingService(ClusterError):
    """A program is not installed; the message says how to install it."""

    exit_code = 5


class BadMessage(ClusterError):
    """A queue message that is no task; it goes to the dead letters with this reason."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class BadRequest(ClusterError):
    """What is asked for cannot be done; the message names the culprit and the remedy."""

    exit_code = 2
    status = HTTPStatus.UNPROCESSABLE_ENTITY


class NotFound(BadRequest):
    """A request about something that there is not."""

    status = HTTPStatus.NOT_FOUND


class Conflict(BadRequest):
    """A request under an id that stands for something else already."""

    status = HTTPStatus.CONFLICT


class LockedProjects(ClusterError):
    """Projects that only who is logged in may change.

    Attributes:
        names: all of them.
    """

    status = HTTPStatus.FORBIDDEN

    def __init__(self, names: Sequence[str], remedy: str = "log in") -> None:
        some = ", ".join(names[:5])
        super().__init__(
            f"{len(names)} of these projects are locked: {remedy}, or leave out {some}"
        )
        self.names = list(names)


class FenceClosed(ClusterError):
    """An effect was stopped because the lease ended or the slot is not owned any more."""


class SessionLost(ClusterError):
    """The ZooKeeper session ended: everything held under it belongs to nobody now."""

    status = HTTPStatus.SERVICE_UNAVAILABLE  # another one begins


class JobLost(ClusterError):
    """A job is not ours any more: another holds it, it is done, or our claimant is gone."""


class BatchTaken(ClusterError):
    """A batch of this id was put in part, with other jobs; it cannot be completed with these."""

    status = HTTPStatus.CONFLICT


class NameTaken(ClusterError):
    """A name that only one may hold at a time is held by another that lives."""


class TimedOut(ClusterError):
    """What was waited for did not happen in time."""


class Missing(TimedOut):
    """Some did not come in time.

    Attributes:
        missing: a phrase for each: who it is and whether it runs, or how many are unknown.
    """

    def __init__(self, what: str, missing: Sequence[str]) -> None:
        super().__init__(f"{what}; missing: {'; '.join(missing)}")
        self.missing = tuple(missing)
