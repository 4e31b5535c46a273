"""What a command shows: tables, times, failures without passwords, and remarks."""

import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import IO, Any

import click
from rich.console import Console
from rich.table import Table

from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.terminal import escaped_lines, masked, say

UNREADABLE = "unreadable"
"""What is shown in place of a time before the first year, or after the last, of the calendar.

Anybody may have written the times in records. Such a record is none the worse otherwise: a member
with an odd clock keeps its slots and is shown.
"""

json_option = click.option("--json", "as_json", is_flag=True, help="print one JSON document")


class Failure(click.ClickException):
    """A `ClusterError` on its way out of a command, with the exit code of its class.

    Args:
        error: what happened.
        where: the component it happened in, if that is not obvious.
        debug: show the traceback, too.
    """

    def __init__(self, error: ClusterError, where: str = "", debug: bool = False) -> None:
        message = _message(error)
        super().__init__(escaped_lines(masked(f"{where}: {message}" if where else message)))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click reads it from the instance
        self.trace = _trace(error) if debug else ""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to stderr."""
        if self.trace:
            click.echo(self.trace, file=file, err=file is None)
        super().show(file)


def _trace(error: ClusterError) -> str:
    return escaped_lines(masked("".join(traceback.format_exception(error))))


def _message(error: ClusterError) -> str:
    if not isinstance(error, ConfigError) or len(error.faults) == 1:
        return str(error)
    lines = (f"  - {fault}" for fault in error.faults)
    return "\n".join([f"the configuration has {len(error.faults)} faults:", *lines])


@contextmanager
def remarked_if_unlogged() -> Iterator[None]:
    """Remark on stderr that the block could not write its event: what that tells of is done."""
    try:
        yield
    except ClusterError as error:
        say(f"it is not in the event log: {error}", err=True)


def console(**more: Any) -> Console:
    """Return the console; output that is not a terminal is 160 columns wide."""
    return Console(width=None if sys.stdout.isatty() else 160, **more)


def table(*names: str, right: Collection[str], title: str | None = None) -> Table:
    """Return a table without lines, some of whose columns are numbers, at the right."""
    made = Table(title=title, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    return made


def moment(seconds: float) -> str:
    """Return a time, in seconds since the epoch, by the local clock."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):
        return UNREADABLE


def age(since: float, now: float) -> str:
    """Return how long ago a time was; what is yet to come is new."""
    try:
        return str(max(timedelta(), timedelta(seconds=int(now - since))))
    except (OverflowError, ValueError):
        return UNREADABLE
