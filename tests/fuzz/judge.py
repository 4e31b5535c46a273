"""The judge: what fuzzing did to a cluster. Reads logs and /proc, asks for health, counts keys."""

import itertools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_HEADED = re.compile(r"^\S*\[([A-Z]) \d{6} .*$", re.MULTILINE)
_TRACE = "Traceback (most recent call last):"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')

SPARE = 200 * 2**20  # bytes that a process may have more in the end than at rest

EXCUSED: tuple[tuple[str, str], ...] = (
    (r"was not answered", r"(BrokenPipeError|ConnectionResetError|TimeoutError|ConnectionAborted)"),
    (r"Error on request", r"(BrokenPipeError|ConnectionResetError)"),
    (r"processor:\d+\] process .* failed", r""),
    (r"tornado_fetcher:163\]", r""),
    (r"project_module:\d+\] load project .* error", r""),
)
"""Records, and the errors that they may tell of.

A client went away; or what was met was bad, the record says which task or project it was, and that
one alone fails. The fetcher's stands for an answer of status 599 to its task, which names it.
"""


@dataclass(frozen=True)
class Trace:
    """A traceback in a log.

    Attributes:
        head: the line that it belongs to, such as a record's.
        error: its last line.
        place: where it was raised.
        text: all of it.
    """

    head: str
    error: str
    place: str
    text: str

    @property
    def excused(self) -> bool:
        """Whether it tells of nothing that went wrong here."""
        return any(
            re.search(head, self.head) and re.match(error, self.error) for head, error in EXCUSED
        )


def traces(log: str) -> list[Trace]:
    """Return the tracebacks of a log's text. Pure.

    Every traceback counts, caught or not, but for the excused: who meets bad input says in a line
    what is wrong with it, and where it came from; a traceback says that somebody was surprised.
    """
    return [_trace(record) for record in _records(log) if _TRACE in record]


def complaints(log: str) -> str:
    """Return the warnings and errors of a log, and what Python or a library printed itself."""
    heads = ((_HEADED.match(record), record) for record in _records(log))
    return "".join(record for head, record in heads if head is None or head[1] in "WEC")


def _records(log: str) -> Iterable[str]:
    """Return the records with the lines that belong to each; what Python prints itself is one."""
    begins = [found.start() for found in _HEADED.finditer(log)]
    begins += [found.start() for found in re.finditer(r"^Exception (in|ignored)", log, re.M)]
    cuts = sorted({0, *begins, len(log)})
    return (log[begin:end] for begin, end in itertools.pairwise(cuts))


def _trace(record: str) -> Trace:
    lines = record.strip().splitlines()
    last = max(place for place, line in enumerate(lines) if _TRACE in line)
    frames = [found for line in lines[last:] if (found := _FRAME.search(line))]
    margin = lines[last][: len(lines[last]) - len(lines[last].lstrip())]
    after = [line.removeprefix(margin) for line in lines[last + 1 :]]
    error = next((line for line in after if line[:1].strip()), "")
    place = f"{Path(frames[-1][1]).name}:{frames[-1][2]} {frames[-1][3]}" if frames else ""
    first = next(place for place, line in enumerate(lines) if _TRACE in line)
    head = " ".join(lines[: max(first, 1)])  # what a record quotes may have several lines
    return Trace(head, error, place, "\n".join(lines)[:6000])


@dataclass
class LogReader:
    """Reads what was added to logs. Threads: one."""

    logs: Callable[[], Mapping[str, Path]]
    _read: dict[Path, int] = field(default_factory=dict)
    _rest: dict[Path, str] = field(default_factory=dict)

    def news(self) -> dict[str, str]:
        """Return what each process logged since the last time.

        The last record waits until there is another, or nothing more comes: it may not be whole.
        """
        found = {}
        for name, path in self.logs().items():
            if path.exists() and (text := self._news_of(path)):
                found[name] = text
        return found

    def _news_of(self, path: Path) -> str:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        self._read[path] = self._read.get(path, 0) + len(data)
        text = self._rest.pop(path, "") + data.decode("utf-8", "replace")
        if not data:
            return text
        begin = max((found.start() for found in _HEADED.finditer(text)), default=0)
        self._rest[path] = text[begin:]
        return text[:begin]


# --- memory -------------------------------------------------------------------------------------


def resident(pid: int) -> int:
    """Return the bytes of a process that are in memory; 0 if it is gone. Linux."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


@dataclass
class Memory:
    """What processes have in memory: at rest, at most, and in the end. Bytes, by name."""

    rest: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    end: dict[str, int] = field(default_factory=dict)

    def sample(self, processes: Mapping[str, int]) -> dict[str, int]:
        """Look now; return what was seen."""
        now = {name: resident(pid) for name, pid in processes.items()}
        self.peak = {name: max(size, self.peak.get(name, 0)) for name, size in now.items()}
        return now

    def faults(self) -> list[str]:
        """Return which processes kept more than may be."""
        return [
            f"{name} keeps {mib(size - self.rest[name])} MiB more than at rest"
            for name, size in self.end.items()
            if name in self.rest and size - self.rest[name] > SPARE
        ]

    def lines(self) -> list[str]:
        return [
            f"{name}: {mib(self.rest[name])} MiB at rest, {mib(self.peak.get(name, 0))} at most,"
            f" {mib(self.end.get(name, 0))} in the end"
            for name in sorted(self.rest)
        ]


def mib(size: float) -> int:
    """Return whole MiB."""
    return round(size / 2**20)


# --- health -------------------------------------------------------------------------------------


@dataclass
class Question:
    """Something that must be answered again and again. Threads: one.

    Attributes:
        what: in words.
        ask: returns whether the answer is right; raises nothing.
        patience: seconds without a right answer after which something hangs.
    """

    what: str
    ask: Callable[[], bool]
    patience: float
    answered: float = field(default_factory=time.monotonic)
    asked: int = 0

    def look(self) -> str:
        """Ask; return what is wrong, or nothing."""
        self.asked += 1
        now = time.monotonic()
        if self.ask():
            self.answered = now
            return ""
        late = time.monotonic() - self.answered
        return f"{self.what}: no right answer for {late:.0f} s" if late > self.patience else ""


def say(what: str) -> None:
    """Print how far a run is."""
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)  # noqa: T201
