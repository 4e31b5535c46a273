"""Edits as data, and the engine that applies them or names the one that does not match."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# The Apache licence wants changed files to say so.
NOTICE = "# Changed by pyspider-zk: its folder `patches` lists every edit and its reason.\n"
SCRIPT_NOTICE = f"//{NOTICE.removeprefix('#')}"


class EditError(Exception):
    """An edit's anchor was not found as often as the edit says."""

    def __init__(self, file: str, anchor: str, expected: int, found: int, why: str) -> None:
        super().__init__(f"{file}: {anchor!r}: expected {expected}, found {found} (edit: {why})")


@dataclass(frozen=True)
class Edit:
    """Replace the text `old`, which must occur `count` times."""

    file: str
    old: str
    new: str
    why: str
    count: int = 1

    def apply(self, text: str) -> str:
        """Return the changed text, or raise EditError."""
        _expect(self.file, text, self.old, self.count, self.why)
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Span:
    """Replace everything from the only `start` up to, not including, the next `end`."""

    file: str
    start: str
    end: str
    new: str
    why: str

    def apply(self, text: str) -> str:
        """Return the changed text, or raise EditError."""
        _expect(self.file, text, self.start, 1, self.why)
        head, rest = text.split(self.start)
        if self.end not in rest:
            raise EditError(self.file, self.end, 1, 0, self.why)
        return head + self.new + rest[rest.index(self.end) :]


def patch(tree: Path, edits: Iterable[Edit | Span]) -> None:
    """Apply the edits to the files below the tree, in order, and mark the files."""
    texts: dict[str, str] = {}
    for edit in edits:
        if edit.file not in texts:
            texts[edit.file] = _read(tree / edit.file, edit.why)
        texts[edit.file] = edit.apply(texts[edit.file])
    for file, text in texts.items():
        (tree / file).write_bytes(_marked(file, text).encode())


def _expect(file: str, text: str, anchor: str, expected: int, why: str) -> None:
    found = text.count(anchor)
    if found != expected:
        raise EditError(file, anchor, expected, found, why)


def _read(path: Path, why: str) -> str:
    if not path.is_file():
        raise EditError(str(path), "the file", 1, 0, why)
    return path.read_bytes().decode()


def _marked(file: str, text: str) -> str:
    """Put the notice below the two lines which may be a shebang and an encoding."""
    if file.endswith(".js"):
        return SCRIPT_NOTICE + text
    lines = text.splitlines(keepends=True)
    at = sum(line.startswith("#!") or "coding" in line for line in lines[:2])
    return "".join([*lines[:at], NOTICE, *lines[at:]])
