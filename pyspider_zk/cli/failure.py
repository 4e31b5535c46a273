"""Failures of a command: one message on stderr, the exit code of its class, no password."""

import re
import traceback
from typing import IO, Any

import click

from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.terminal import escaped_lines

# Up to the last @ of the word, because a password may hold one.
_PASSWORD = re.compile(r"(\w://[^\s:/@]*):\S+@")
_OPTION = re.compile(r"([?&]\w*password=)[^\s&]+")


def masked(text: str) -> str:
    """Return the text without the passwords of the URLs in it."""
    return _PASSWORD.sub(r"\1:***@", _OPTION.sub(r"\1***", text))


class Failure(click.ClickException):
    """A `ClusterError` on its way out of a command.

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
