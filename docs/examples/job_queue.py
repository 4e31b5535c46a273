"""Three processes do twelve jobs; one of them dies over a job, and another does that one too.

Usage: ``python docs/examples/job_queue.py [ZOOKEEPER [ROOT]]``. It needs a ZooKeeper; the
processes may as well be started by hand, on as many machines.
"""

import multiprocessing
import os
import sys
import threading

from pyspider_zk.jobs import (
    Claim,
    Connection,
    JobLost,
    JobQueue,
    JobState,
    Outcome,
    Registration,
    Settings,
)

BATCH = "squares"
NUMBERS = range(1, 13)


def main(hosts: str = "127.0.0.1:2181", root: str = "/examples") -> None:
    """Put the jobs, start the processes, wait for the end and add up."""
    settings = Settings(hosts=hosts, root=root, session=4.0)
    connection = Connection(settings)
    connection.start()
    queue = JobQueue(connection, f"{root}/jobs")
    queue.put(BATCH, [("numbers", {"number": number}) for number in NUMBERS])
    # spawn, not fork: a connection must be made in the process that uses it.
    context = multiprocessing.get_context("spawn")
    weak, *others = [context.Process(target=work, args=(settings, n == 0)) for n in range(3)]
    weak.start()
    weak.join()  # it has died; ZooKeeper finds out when its session ends
    for process in others:
        process.start()
    for process in others:
        process.join()
    jobs = queue.batch(BATCH).jobs[JobState.DONE].values()
    total = sum(job.progress["square"] for job in jobs)
    again = sum(job.claims > 1 for job in jobs)
    sys.stdout.write(f"{len(jobs)} jobs are done, {again} of them by a second; sum {total}\n")
    connection.stop()


def work(settings: Settings, is_weak: bool) -> None:
    """Take jobs until all of the batch are done."""
    connection = Connection(settings)
    connection.start()
    queue = JobQueue(connection, f"{settings.root}/jobs")
    registration = Registration(connection, f"{settings.root}/claimants")
    changed = threading.Event()
    wake = lambda _event: changed.set()  # noqa: E731 - one callable for all watches
    queue.on_change(wake)
    while not queue.batch(BATCH).ended:
        changed.clear()
        claims = queue.take(registration.claimant(), mine=lambda _project: True, room=1)
        for claim in claims:
            if is_weak:
                os._exit(0)  # as kill -9 does
            carry_out(queue, claim)
        if not claims:
            changed.wait(1.0)
    connection.stop()


def carry_out(queue: JobQueue, claim: Claim) -> None:
    """Do one job; doing it twice does no harm."""
    try:
        claim = queue.report(claim, {"state": "begun"})
        if claim.job.cancelled:
            queue.give_back(claim, {})
            return
        number = claim.job.work["number"]
        queue.finish(claim, Outcome.DONE, {"square": number * number})
    except JobLost:
        return  # our session ended, and another does it


if __name__ == "__main__":
    main(*sys.argv[1:])
