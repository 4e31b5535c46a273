"""The pages as a reader has them: which commands they say, and which files they let one write.

Pure, except for `pages` and `read`.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("*.md", "docs/**/*.md", "patches/*.md", "tests/*/README.md")

_FENCE = re.compile(r"^ *(`{3,})([\w{}-]*).*$")
_FILE = re.compile(r"`([\w-]+\.\w+)`[^`]*:$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        line: of its first line in the page, from 1.
        language: ``sh``, ``json``, ...; may be empty.
        file: the name at the end of the sentence before it, as in "Write this to `a.json`:".
    """

    line: int
    language: str
    file: str
    text: str


@dataclass(frozen=True)
class PageCommand:
    """One command of a page.

    Attributes:
        line: where it begins in the page, from 1.
        output: what the page says that it prints; None: it says nothing.
    """

    page: str
    line: int
    text: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}: {self.text}"


def pages() -> dict[str, str]:
    """Return the text of every page by its path in the repository."""
    found = sorted({path for place in PLACES for path in ROOT.glob(place)})
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in found}


def read(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text("utf-8")


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines, before = iter(enumerate(text.splitlines(), 1)), ""
    for number, line in lines:
        if fence := _FENCE.match(line):
            inside = []
            for _, each in lines:
                if each.strip() == fence[1]:
                    break
                inside.append(each)
            named = _FILE.search(before)
            body = dedent("\n".join(inside)) + "\n"
            yield Block(number + 1, fence[2], named[1] if named else "", body)
        before = line.strip() or before


def commands(page: str, block: Block) -> Iterator[PageCommand]:
    """Yield the commands of a block: of ``sh`` all lines, of ``console`` those after a ``$``."""
    if block.language == "console":
        yield from _shown(page, block)
    elif block.language == "sh":
        for line, text in _complete(block.text.splitlines()):
            yield PageCommand(page, block.line + line, text)


def commands_of(page: str, text: str) -> list[PageCommand]:
    """Return all commands of a page."""
    return [each for block in blocks(text) for each in commands(page, block)]


def _shown(page: str, block: Block) -> Iterator[PageCommand]:
    line = block.line
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE):
        if part:
            command, _, output = part.removeprefix("$ ").partition("\n")
            yield PageCommand(page, line, command, output)
            line += part.count("\n")


def _complete(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each command with the number of its first line; comments and empty lines are none."""
    begun: list[str] = []
    for number, line in enumerate(lines):
        begun.append(line)
        words = _words("\n".join(begun))
        if words is None:
            continue
        if words:
            yield number + 1 - len(begun), "\n".join(begun)
        begun = []
    if begun:
        yield len(lines) - len(begun), "\n".join(begun)


def _words(text: str) -> list[str] | None:
    """Return the words of a command; None if it goes on in the next line."""
    if text.endswith("\\"):
        return None
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quotation is open
        return None
