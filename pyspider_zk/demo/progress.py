"""Progress of a crawl: a bar on a terminal, a line now and then elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINES = 10  # about that many lines for a whole crawl
STEP_UNKNOWN = 50  # pages per line, if nobody knows how many there are

Gauge = Callable[[int, str], None]
"""Shows the number of pages that are done and what happens just now."""


@contextmanager
def gauge(console: Console, total: int | None) -> Iterator[Gauge]:
    """Return the function that shows the progress.

    Args:
        console: where.
        total: how many pages there are, if anybody knows.
    """
    if console.is_terminal:
        with _bar(console) as progress:
            task = progress.add_task("", total=total)
            yield lambda done, what: progress.update(task, completed=done, description=what)
    else:
        yield _lines(console, total)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _lines(console: Console, total: int | None) -> Gauge:
    step = STEP_UNKNOWN if total is None else max(1, total // LINES)
    told = (-1, "")

    def show(done: int, what: str) -> None:
        nonlocal told
        if (done // step, what) != told:
            told = (done // step, what)
            of = "" if total is None else f" of {total}"
            console.print(f"{what}: {done}{of} pages", markup=False)

    return show
