"""Execution of one claimed job: which projects come next, and what came of them.

An operation is carried out in stages, each on all projects of the job.
"""

import logging
import threading
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse, islice
from typing import Any, NamedTuple

from pyspider_zk.errors import BadMessage, BadRequest, ClusterError, FenceClosed, Unavailable, brief
from pyspider_zk.jobs.model import Claim, Outcome, Verdict
from pyspider_zk.jobs.operations import Progress, Work
from pyspider_zk.zookeeper.codec import plain

logger = logging.getLogger(__name__)

WAITS = ""
"""The reason given for a project that is put off without having failed."""

LOOK_AGAIN = 0.5  # seconds until projects that were put off are tried again
TIDIED_AT_ONCE = 32  # projects that are cleaned up after in one go
TRIES = 3  # of a project that fails, before the others go on to the next stage without it
TOLD_IN_FULL = 3  # failures of a job that are logged with the traceback


class OperationRefused(ClusterError):
    """A project that an operation cannot be done to, now or later; the message says why."""


@dataclass
class ProjectTarget:
    """One project that an operation applies to.

    Attributes:
        batch: the id of the batch; what was done for it is not repeated.
        waited: it was put off before, by this claimant or another.
        waits: this claimant has put it off.
        version: the version of its row that the operation began with; set by the first stage.
        place: how far the stage came within the project, for its next call by this claimant.
    """

    project: str
    batch: str
    waited: bool = False
    waits: bool = False
    version: float | None = None
    place: Any = None


Results = dict[str, bool | Exception]
"""What came of a stage, by project: True: it is done; False: it must wait for a later round; or
why it failed. ``OperationRefused`` and ``BadMessage`` are final, other errors are tried again."""


class Stage(NamedTuple):
    """Stage: a part of an operation that is completed for all projects before the next one.

    Attributes:
        apply: applies it to a chunk of projects, no two of them the same. What it raises may be the
            fault of any of them: then it is applied again, to fewer.
        recorded: the stages before must be recorded in ZooKeeper when it begins.
        settle: seconds to wait before it begins.
        tidies: it cleans up after the stages before; it is the last one, and in any case applied
            to the projects that were done.
    """

    apply: Callable[[Sequence[ProjectTarget]], Results]
    recorded: bool = False
    settle: float = 0.0
    tidies: bool = False


Stages = Callable[[Work], tuple[Stage, ...]]
"""Returns the stages of a job's operation; see ``scheduling/operations.py``."""


class JobWork:
    """Work on one claimed job.

    Threads: the scheduling loop calls ``advance``, ``targets``, ``note`` and ``let_go``. The thread
    that talks to ZooKeeper calls the others; it alone replaces ``claim``.

    Args:
        claim: the job; work that former claimants reported is not repeated.

    Attributes:
        claim: the job as it was reported last.
        verdict: set once, by the loop; nothing more is done afterwards.
        reported: when it was reported last, on the job thread's clock.
        waits_since: since when everything left of it waits for something, on the loop's
            clock; None: it can go on.
        gives_way: set by the job thread: it is given back if it waits, so that others have room.
    """

    def __init__(self, claim: Claim, stages_of: Stages, clock: Callable[[], float]) -> None:
        self.claim = claim
        self.name = claim.name
        self.verdict: Verdict | None = None
        self.reported = float("-inf")
        self.waits_since: float | None = None
        self.gives_way = False
        self._stages_of = stages_of
        self._clock = clock
        self._projects: list[str] = []
        self._places: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._changes = self._recorded = 0
        self._cancelled = claim.job.cancelled
        self._to_tidy: deque[str] = deque()
        self._ending: Verdict | None = None
        self._not_before = float("-inf")
        self._failures = self._rounds = 0
        self._stages: tuple[Stage, ...] = ()
        self._operation = b""
        self._resume(Progress())
        try:
            self._understand()
        except (BadMessage, BadRequest) as error:
            self._ending = Verdict(Outcome.FAILED, brief(error))

    # --- the job thread ---

    def progress(self) -> tuple[Progress, int]:
        """Return the progress, and the number of changes that led to it."""
        with self._lock:
            at = len(self._projects) - len(self._left)
            told = Progress(
                self._stage, at, dict(self._later), dict(self._errors), dict(self._versions)
            )
            return told, self._changes

    def recorded(self, claim: Claim, changes: int) -> None:
        """Record that the progress after so many changes is in ZooKeeper."""
        self.claim = claim
        self._recorded = changes
        self._cancelled = self._cancelled or claim.job.cancelled

    def cancel(self) -> None:
        """Stop before the next projects, because the batch was cancelled."""
        self._cancelled = True

    @property
    def is_new(self) -> bool:
        """Whether there is unreported progress."""
        return self._recorded != self._changes

    @property
    def needs_cleanup(self) -> bool:
        """Whether it must be cleaned up, however it ends."""
        return self._stage > 0 and any(stage.tidies for stage in self._stages)

    @property
    def waits(self) -> bool:
        """Whether nothing of it can be done at present."""
        return self.waits_since is not None

    @property
    def is_urgent(self) -> bool:
        """Whether the work stands still until its progress is reported, or is over."""
        return self.verdict is not None or (self.is_new and self._awaits_record())

    # --- the scheduling loop ---

    def let_go(self, reason: str = "") -> None:
        """Stop working; the job is given back, after a failure with the reason."""
        self.verdict = self.verdict or Verdict(None, reason)

    def advance(self) -> bool:
        """Do what is next, unless that is a project; return whether it may be called again at once.

        Raises:
            FenceClosed: the lease ended, or the slot is lost; nothing is skipped.
            Unavailable: the message queue is away; likewise.
        """
        if self.gives_way and self.waits:
            self.let_go()
        if self.verdict is not None or self._clock() < self._not_before:
            return False
        if self._cancelled and not (self._ending and self._ending.outcome):
            self._wind_up(Verdict(Outcome.CANCELLED))
            return True
        if self._ending is not None:
            return self._end()
        return not self._awaits_record() and self._next() is None and self._step_on()

    @property
    def kind(self) -> tuple[bytes, int]:
        """What is done to its next projects: jobs of one kind may be carried out together."""
        return self._operation, self._stage

    @property
    def stage(self) -> Stage:
        """The stage that applies to its next projects."""
        return self._stages[self._stage]

    def targets(self, most: int) -> list[ProjectTarget]:
        """Return the next projects, each once; none if something else comes first.

        ``note`` must be called for each of them in this order, or for none.
        """
        is_over = self.verdict is not None or self._ending is not None
        if is_over or self._clock() < self._not_before or self._awaits_record():
            return []
        if self._next() is None:
            return []
        upcoming = (
            filterfalse(self._skipped.__contains__, self._left) if self._left else self._again
        )
        return [self._target(name) for name in islice(_once(upcoming), most)]

    def note(self, target: ProjectTarget, result: bool | Exception) -> None:
        """Note what came of the stage for a project; a failure does not block the others."""
        logger.debug("job %s: %s", self.name, target.project, extra={"project": target.project})
        self._next()
        if isinstance(result, OperationRefused | BadMessage):
            self._note(target, error=brief(result))
        elif isinstance(result, Exception):
            self._fail(target, result)
        else:
            self._note(target, later=None if result else WAITS)

    def _understand(self) -> None:
        """Read the work to do and its progress.

        Raises:
            BadMessage: the record is not valid; anybody may have written it.
            BadRequest: there is no such operation.
        """
        work, progress = Work.parse(self.claim.job.work), Progress.parse(self.claim.job.progress)
        self._projects = list(work.projects)
        self._resume(progress)
        self._stages = self._stages_of(work)
        self._operation = plain([work.operation, dict(work.arguments)])
        for stage in self._stages[self._stage : self._stage + 1]:
            self._not_before = self._clock() + stage.settle  # a former claimant may have just died

    def _resume(self, progress: Progress) -> None:
        self._stage = progress.stage
        self._left = deque(self._projects[progress.at :])
        self._later = dict(progress.later)
        self._again = deque(progress.later)
        self._errors = dict(progress.errors)
        self._versions = dict(progress.versions)

    def _awaits_record(self) -> bool:
        """Return whether this stage must not begin before the one before it is reported."""
        if self._ending is not None or self._stage >= len(self._stages):
            return False
        begins = len(self._left) == len(self._projects)
        return begins and self._stages[self._stage].recorded and self.is_new

    @property
    def _skipped(self) -> Mapping[str, str]:
        return ChainMap(self._errors, self._later)

    def _next(self) -> str | None:
        """Return the next project, None if this stage has been through all for now."""
        while self._left and self._left[0] in self._skipped:
            with self._lock:
                self._left.popleft()
        if self._left:
            return self._left[0]
        return self._again[0] if self._again else None

    def _target(self, name: str) -> ProjectTarget:
        waited = self._later.get(name) == WAITS
        version, place = self._versions.get(name), self._places.get(name)
        return ProjectTarget(name, self.name.group, waited, self.waits, version, place)

    def _fail(self, target: ProjectTarget, error: Exception) -> None:
        """Put a project off: the fault is its own; an unavailable database raises another error."""
        in_full = error if self._failures < TOLD_IN_FULL else None
        self._failures += 1
        logger.error("job %s, project %s: %r", self.name, target.project, error, exc_info=in_full)
        self._note(target, later=brief(repr(error)))

    def _note(
        self, target: ProjectTarget, later: str | None = None, error: str | None = None
    ) -> None:
        name = target.project
        with self._lock:
            is_news = bool(self._left) or later != WAITS
            (self._left or self._again).popleft()
            self._later.pop(name, None)
            if later is not None:
                self._later[name] = later
            if error is not None:
                self._errors[name] = error
            if target.version is not None:
                self._versions[name] = target.version
            if target.place is not None:
                self._places[name] = target.place
            self._changes += is_news

    def _step_on(self) -> bool:
        """Continue after all projects: with those put off, with the next stage, or end."""
        waiting = [name for name, reason in self._later.items() if reason == WAITS]
        failed = [reason for reason in self._later.values() if reason != WAITS]
        if waiting:
            self._again = deque(waiting)
            now = self._clock()
            self._not_before = now + LOOK_AGAIN
            self.waits_since = now if self.waits_since is None else self.waits_since
            return False
        self.waits_since = None
        to_come = self._stages[self._stage + 1 :]
        if failed and all(stage.tidies for stage in to_come):
            self._wind_up(Verdict(None, failed[0]))
        elif failed and self._rounds + 1 < TRIES:
            self._try_again()
        elif to_come:
            self._enter(self._stage + 1)
        else:
            self._ending = Verdict(Outcome.DONE)
        return True

    def _try_again(self) -> None:
        """Try those that failed again, a moment later."""
        self._rounds += 1
        self._again = deque(self._later)
        self._not_before = self._clock() + LOOK_AGAIN

    def _enter(self, stage: int) -> None:
        """Begin a stage; failed projects are given up, so that the others can go on to it."""
        self._rounds = 0
        with self._lock:
            self._errors |= self._later
            self._later = {}
            self._stage = stage
            self._left = deque(self._projects)
            self._again.clear()
            self._changes += 1
        self._not_before = self._clock() + self._stages[stage].settle

    def _wind_up(self, verdict: Verdict) -> None:
        """Stop, and end with this verdict once what was done is cleaned up."""
        self._ending = verdict
        self.waits_since = None
        if self.needs_cleanup:
            # Also after those that no report tells of: their claimant may have died in between.
            self._to_tidy = deque(name for name in self._projects if name not in self._errors)
            has_settled = self._stages[self._stage].tidies
            self._not_before = self._clock() + (0 if has_settled else self._stages[-1].settle)

    def _end(self) -> bool:
        """Clean up after some projects; end if they were the last."""
        if not self._to_tidy:
            self.verdict = self._ending
            return False
        some = list(dict.fromkeys(islice(self._to_tidy, TIDIED_AT_ONCE)))
        try:
            results = self._stages[-1].apply([ProjectTarget(one, self.name.group) for one in some])
            for error in (each for each in results.values() if isinstance(each, Exception)):
                raise error
        except (FenceClosed, Unavailable):
            raise
        except Exception as error:  # each database has errors of its own
            logger.exception("job %s, cleaning up after %s", self.name, ", ".join(some))
            self.let_go(brief(repr(error)))
            return False
        self._to_tidy = deque(islice(self._to_tidy, TIDIED_AT_ONCE, None))
        return True


def _once(names: Iterable[str]) -> Iterator[str]:
    """Yield names until one comes again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return
        seen.add(name)
        yield name
