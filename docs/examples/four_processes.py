"""Four processes count the primes below a limit, each its share, and one adds them up.

Usage: ``python docs/examples/four_processes.py [ZOOKEEPER [ROOT]]``. It needs a ZooKeeper; the
processes may as well be started by hand, on as many machines.
"""

import multiprocessing
import sys
import tempfile
import uuid
from pathlib import Path

from pyspider_zk.controller import Settings, WorkerController

PROCESSES = 4
LIMIT = 20_000


def main(hosts: str = "127.0.0.1:2181", root: str = "/examples") -> None:
    """Start the processes and wait for them."""
    settings = Settings(hosts=hosts, root=root)
    run = uuid.uuid4().hex  # another run of "primes" is refused until this one has ended
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        # spawn, not fork: a connection must be made in the process that uses it.
        context = multiprocessing.get_context("spawn")
        crew = [
            context.Process(target=work, args=(settings, run, results)) for _ in range(PROCESSES)
        ]
        for process in crew:
            process.start()
        for process in crew:
            process.join()
    sys.exit(any(process.exitcode for process in crew))


def work(settings: Settings, run: str, results: Path) -> None:
    """Do one share; the number says which."""
    with WorkerController(settings, "primes", run=run) as me:
        me.wait_joined(PROCESSES, timeout=60)
        found = sum(map(is_prime, range(me.number, LIMIT, PROCESSES)))
        with me.lock("results", timeout=60), results.open("a") as file:
            file.write(f"{found}\n")
        me.barrier("counted", PROCESSES).wait(timeout=60)
        if me.number == 0:
            shares = list(map(int, results.read_text().split()))
            sys.stdout.write(f"{len(shares)} shares, {sum(shares)} primes below {LIMIT}\n")


def is_prime(number: int) -> bool:
    """Return whether a number is a prime."""
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
