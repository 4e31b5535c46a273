"""Schedulers that are measured against each other, started as an operator starts them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspider_zk.local.child import Child, tail
from tests.bench.bench import BenchPlace
from tests.bench.feeds import Dispatched, Feed, SlotFeed, StockFeed
from tests.support.connected import is_settled
from tests.support.ports import own_port
from tests.support.waiting import eventually

QUIET = Path(__file__).with_name("logging-off.conf")


@dataclass(frozen=True)
class Contender:
    """A scheduler and what it talks to.

    Attributes:
        name: in figures.
        program: its module, behind the one that runs it, if any.
        options: of its command ``scheduler``.
        clustered: whether there may be several.
    """

    name: str
    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    clustered: bool = False

    def feed(self, place: BenchPlace) -> Feed:
        """Return what its processors talk to."""
        return (SlotFeed if self.clustered else StockFeed)(place.redis)

    def line(
        self,
        place: BenchPlace,
        *command: str,
        quiet: bool = False,
        prefix: Sequence[str] = ("-m",),
        queue: str = "0",
    ) -> list[str]:
        """Return the command line of one process.

        Its queues have no limit, unless one is given: nobody waits for whoever answers, so that the
        scheduler is what limits.
        """
        zookeeper = ["--zookeeper", place.zookeeper] if self.clustered else []
        logging = ["--logging-config", str(QUIET)] if quiet else []
        shared = ["--queue-maxsize", queue, "--data-path", str(place.folder)]
        program = (*prefix, *self.program)
        return [sys.executable, *program, *zookeeper, *logging, *shared, *command]

    def scheduler(self, place: BenchPlace, *, quiet: bool, prefix: Sequence[str]) -> list[str]:
        """Return the command line of a scheduler."""
        port = "0" if self.clustered else str(own_port())
        command = ("scheduler", "--xmlrpc-port", port, *self.options)
        return self.line(place, *command, quiet=quiet, prefix=prefix)


def _pyspiders(name: str, scheduler: str, *runner: str) -> Contender:
    options = ("--scheduler-cls", f"pyspider.scheduler.{scheduler}")
    return Contender(name, (*runner, "pyspider.run"), options)


AS_PUBLISHED = "tests.bench.as_published"
STOCK = _pyspiders("pyspider Scheduler", "Scheduler", AS_PUBLISHED)
THREADED = _pyspiders("pyspider ThreadBaseScheduler", "ThreadBaseScheduler", AS_PUBLISHED)
PATCHED = _pyspiders("pyspider Scheduler, patched", "Scheduler")
OURS = Contender("pyspider-zk", ("pyspider_zk.cli.main",), clustered=True)
ALL = {contender.name: contender for contender in (STOCK, THREADED, PATCHED, OURS)}


@dataclass
class BenchCrew:
    """Schedulers that run, and the queues to and from them.

    Attributes:
        place: where.
        feed: to them.
        dispatched: from them.
        children: the processes.
    """

    place: BenchPlace
    feed: Feed
    dispatched: Dispatched
    children: list[Child] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """The ids of their processes."""
        return [child.pid for child in self.children]

    def last_words(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(f"--- {child.name}\n{tail(child.log)}" for child in self.children)

    def check(self) -> None:
        """Make sure that all of them run.

        Raises:
            RuntimeError: with the end of the log of one that ended.
        """
        for child in self.children:
            if not child.running:
                raise RuntimeError(f"{child.name} ended:\n{tail(child.log)}")


@contextmanager
def running(
    contender: Contender,
    place: BenchPlace,
    count: int = 1,
    *,
    quiet: bool = False,
    prefix: Sequence[str] = ("-m",),
) -> Iterator[BenchCrew]:
    """Run schedulers while the block runs; a cluster's own all slots by then.

    Args:
        contender: which.
        place: where; its queues and databases are empty but for what the caller put there.
        count: how many; more than one only of a cluster.
        quiet: whether only warnings are logged.
        prefix: what Python is told before the program's module.
    """
    with ExitStack() as held:
        crew = BenchCrew(place, contender.feed(place), Dispatched(place.redis))
        held.callback(crew.feed.close)
        held.callback(crew.dispatched.close)
        for number in range(count):
            line = contender.scheduler(place, quiet=quiet, prefix=prefix)
            log = place.folder / f"scheduler-{number}.log"
            child = Child(f"{contender.name} {number}", line, log, place.environ, place.folder)
            held.callback(child.kill)
            child.start()
            crew.children.append(child)
        if contender.clustered:
            eventually(
                lambda: crew.check() or is_settled(place.settings, count),
                f"a cluster of {count}",
                look=0.1,
                told=crew.last_words,
            )
        yield crew
        crew.check()
