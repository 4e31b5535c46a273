"""Text on a terminal: what comes from outside is shown as it is, and never obeyed.

Whoever may write a znode, a queue or a database chooses names, hosts and reasons. In those, neither
control characters reach the terminal, nor does rich read markup such as ``[red]`` or ``:smile:``.
"""

import re

import click
from rich.console import Console
from rich.text import Text

# Control characters, separators of lines, marks that change the direction of text, half characters.
_UNSAFE = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# The password goes to the last @ of the word, because it may hold one. One look at each word:
# whoever chooses a text must not choose how long this takes.
_PASSWORD = re.compile(r"(?<!\S)((?>\S*?\w://[^\s:/]*:))\S+@")
_OPTION = re.compile(r"([?&]\w*password=)[^\s&]+")


def masked(text: str) -> str:
    """Return the text without the passwords of the URLs in it."""
    return _PASSWORD.sub(r"\1***@", _OPTION.sub(r"\1***", text))


def escaped(text: str) -> str:
    """Return text in one line, with what a terminal would obey as Python writes it."""
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)


def escaped_lines(text: str) -> str:
    """Return text with its line breaks, each line escaped."""
    return "\n".join(map(escaped, text.split("\n")))


def cell(value: object, style: str = "") -> Text:
    """Return a value as rich shows it, in one line."""
    return Text(escaped(str(value)), style=style)


def say(text: str, *, err: bool = False) -> None:
    """Print a text for people; JSON needs no escaping."""
    click.echo(escaped_lines(text), err=err)


def tell(console: Console, line: object) -> None:
    """Print a line to a console, however long it is."""
    console.print(escaped(str(line)), markup=False, emoji=False, soft_wrap=True)
