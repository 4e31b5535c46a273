"""The job queue, for programs of your own.

``docs/job-queue.md`` explains how to use it, with an example that runs.
"""

from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, BatchTaken, JobLost, SessionLost, Unavailable
from pyspider_zk.jobs.claims import Registration
from pyspider_zk.jobs.model import (
    Batch,
    BatchRecord,
    Claim,
    Claimant,
    Job,
    JobName,
    JobRules,
    JobState,
    Outcome,
    Report,
    Verdict,
)
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.zookeeper.connection import Connection

__all__ = [
    "BadMessage",
    "Batch",
    "BatchRecord",
    "BatchTaken",
    "Claim",
    "Claimant",
    "Connection",
    "Job",
    "JobLost",
    "JobName",
    "JobQueue",
    "JobRules",
    "JobState",
    "Outcome",
    "Registration",
    "Report",
    "SessionLost",
    "Settings",
    "Unavailable",
    "Verdict",
]
