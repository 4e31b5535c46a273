"""Progress of a job, as recorded in its znode."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from pyspider_zk.errors import CUT, BadMessage
from pyspider_zk.jobs.model import Job
from pyspider_zk.jobs.operations import Work, counted_stage
from pyspider_zk.zookeeper.codec import checked, plain

REASONS_LIMIT = 128 * 1024  # bytes of all reasons that a job's znode holds


@dataclass(frozen=True)
class Progress:
    """Progress of a job: all that its next claimant must know to go on.

    Attributes:
        stage: which stage of its operation it is in.
        at: how many projects this stage has been through.
        later: projects that were put off, with the reason if they failed.
        errors: projects that were given up, with the reason.
        versions: the version of each project's row that the operation began with.
    """

    stage: int = 0
    at: int = 0
    later: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, reported: Mapping[str, Any]) -> Self:
        """Parse the form that ``as_dict`` returns; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: it is not that form; anybody may have written it.
        """
        progress = checked(cls, reported)
        if min(progress.stage, progress.at) < 0:
            raise BadMessage("progress counts from 0 on")
        return progress

    def as_dict(self) -> dict[str, Any]:
        """Return the form for the job's znode.

        If the reasons are too long, they are cut, the longest first; ``CUT`` marks the end of each
        that was cut.
        """
        reasons = [*self.later.values(), *self.errors.values()]
        longest = _longest(reasons, REASONS_LIMIT)
        cut = {
            key: {name: _cut(reason, longest) for name, reason in getattr(self, key).items()}
            for key in ("later", "errors")
        }
        return {**asdict(self), **cut}


def work_of(job: Job) -> Work:
    """Return the work of a job, empty if it cannot be read."""
    return _work(job.work)


def progress_of(job: Job) -> Progress:
    """Return the progress of a job, none if it cannot be read."""
    try:
        return Progress.parse(job.progress)
    except BadMessage:
        return Progress()


def _work(work: object) -> Work:
    try:
        return Work.parse(work)
    except BadMessage:
        return Work("")


def done(asked: Mapping[str, Any], progress: Progress) -> list[str]:
    """Return the projects of a job that are done."""
    work = _work(asked)
    names = work.projects
    counted = counted_stage(work.operation, work.arguments)
    if progress.stage < counted:
        return []
    through = names if progress.stage > counted else names[: progress.at]
    return [name for name in through if name not in {**progress.later, **progress.errors}]


def _size(text: str) -> int:
    return len(plain(text))


def _longest(reasons: Iterable[str], limit: int) -> int:
    """Return how many bytes each reason may have so that together they stay within a limit."""
    sizes = sorted(map(_size, reasons))
    for place, size in enumerate(sizes):
        share = limit // (len(sizes) - place)
        if size > share:
            return share
        limit -= size
    return max(sizes, default=0)


def _cut(reason: str, size: int) -> str:
    """Return a reason, cut so that its JSON has at most so many bytes."""
    if _size(reason) <= size:
        return reason
    kept = reason[:size]
    while kept and _size(kept + CUT) > size:
        kept = kept[: len(kept) * 3 // 4]
    return kept + CUT
