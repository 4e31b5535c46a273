"""Errors, as one tree.

::

    ClusterError                 every error of this package; exit code 1
    ├── ConfigError              invalid settings, all of them at once; exit code 2
    ├── Unavailable              ZooKeeper or the message queue does not answer; exit code 3
    │   ├── DatabaseAway         a database does not answer; its breaker is open
    │   ├── OverQuota            a quota in ZooKeeper does not allow a write
    │   └── Refused              it refuses our login; exit code 6
    ├── Mismatch                 the cluster was created with other values; exit code 4
    ├── MissingService           a program that must be installed first; exit code 5
    ├── BadMessage               a queue message that is not a task
    ├── BadRequest               an invalid request; names the cause and the remedy
    │   ├── BadValues            values that cannot be, by name
    │   ├── NotFound             it is about something that does not exist
    │   └── Conflict             its id belongs to another request
    ├── LockedProjects           projects that only logged-in users may change
    ├── FenceClosed              an effect was stopped: the lease or the slot is gone
    │   └── SealBroken           the task database knows another epoch of the slot
    ├── SessionLost              the ZooKeeper session ended; what it held is no longer ours
    ├── NameTaken                a name that only one may hold is held by another
    ├── TimedOut                 an event did not happen in time
    │   └── Missing              some did not come; it names them
    ├── JobLost                  another claimant has the job now
    └── BatchTaken               the batch was begun with other jobs
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

REASON_LIMIT = 200  # characters of a reason in a log line or record; it may quote hostile input
CUT = "…"
"""What ends a reason that was cut."""


def brief(reason: object) -> str:
    """Return a reason as one line of text, cut to ``REASON_LIMIT``.

    An exception that is none of ours is told with its type: its text alone may say nothing. For one
    of SQLAlchemy the driver's is told, which quotes no statement.
    """
    reason = getattr(reason, "orig", None) or reason
    if isinstance(reason, BaseException) and not isinstance(reason, ClusterError):
        reason = f"{type(reason).__name__}: {reason}"
    text = " ".join(str(reason).split()).encode(errors="replace").decode()
    return text if len(text) <= REASON_LIMIT else text[: REASON_LIMIT - 1] + CUT


class ClusterError(Exception):
    """Root of all errors that this package raises on purpose.

    Attributes:
        exit_code: of a command that ends with it.
        status: of the HTTP response, and the fault code by XML-RPC.
    """

    exit_code = 1
    status = HTTPStatus.INTERNAL_SERVER_ERROR


class ConfigError(ClusterError):
    """Invalid settings.

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
    """A database does not answer; whatever needs it waits, and is not at fault."""


class OverQuota(Unavailable):
    """A quota in ZooKeeper does not allow a write; one that leaves sizes as they are is allowed."""


class Refused(Unavailable):
    """ZooKeeper, the message queue or a database refuses our login, or we its certificate.

    Or no sentinel knows the master that we ask for.

    A running process treats it like an outage; a starting one ends.
    """

    exit_code = 6


class Mismatch(ClusterError):
    """The cluster goes by a protocol that this version does not speak, or has other slots."""

    exit_code = 4
    status = HTTPStatus.SERVICE_UNAVAILABLE


class MissingService(ClusterError):
    """A program is not installed; the message says how to install it."""

    exit_code = 5


class BadMessage(ClusterError):
    """A queue message that is not a task; it goes to the dead letters with this reason."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class BadRequest(ClusterError):
    """An invalid request; the message names the cause and the remedy."""

    exit_code = 2
    status = HTTPStatus.UNPROCESSABLE_ENTITY


class BadValues(BadRequest):
    """Values that cannot be.

    Attributes:
        faults: what is wrong with each, by its name.
    """

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {fault}" for name, fault in faults.items()))
        self.faults = dict(faults)


class NotFound(BadRequest):
    """A request about something that does not exist."""

    status = HTTPStatus.NOT_FOUND


class Conflict(BadRequest):
    """A request with an id that belongs to another request."""

    status = HTTPStatus.CONFLICT


class LockedProjects(ClusterError):
    """Projects that only logged-in users may change.

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


class SealBroken(FenceClosed):
    """A write was stopped in the task database, which has sealed its slot at another epoch.

    Attributes:
        slots: what the database holds for each slot in place of our epoch; None: nothing.
    """

    def __init__(self, slots: Mapping[int, object]) -> None:
        slot, found = next(iter(slots.items()))
        is_sealed = "not sealed" if found is None else f"sealed at epoch {brief(found)}"
        others = f", and {len(slots) - 1} more are not ours" if len(slots) > 1 else ""
        super().__init__(f"in the task database slot {slot} is {is_sealed}, not at ours{others}")
        self.slots = dict(slots)


class SessionLost(ClusterError):
    """The ZooKeeper session ended: whatever it held is no longer ours."""

    status = HTTPStatus.SERVICE_UNAVAILABLE  # another one begins


class JobLost(ClusterError):
    """A job is no longer ours: another has it, it is done, or our claimant is gone."""


class BatchTaken(ClusterError):
    """A batch with this id was put in part, with other jobs; these cannot complete it."""

    status = HTTPStatus.CONFLICT


class NameTaken(ClusterError):
    """A name that only one may hold at a time is held by another, which is alive."""


class TimedOut(ClusterError):
    """An event did not happen in time."""


class Missing(TimedOut):
    """Some did not come in time.

    Attributes:
        missing: a phrase for each: who it is and whether it runs, or how many are unknown.
    """

    def __init__(self, what: str, missing: Sequence[str]) -> None:
        super().__init__(f"{what}; missing: {'; '.join(missing)}")
        self.missing = tuple(missing)
