"""One run: a cluster, inputs into its surfaces at the same time, and the judge's verdict."""

import hashlib
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz import queues, records
from tests.fuzz.inputs import Answered, Input, Surface, save
from tests.fuzz.judge import LogReader, Memory, Question, mib, say, traces
from tests.fuzz.target import Target, target

LOOK = 2.0  # seconds between two looks at logs, memory and health
HANGS = 60.0  # seconds without an answer, or without a page of a healthy project
FINISH = 180.0  # seconds until all pages of the healthy projects must be done
SUSPECTS = 400  # inputs before a finding that are kept with it, of each surface
PACE = {queues.NAME: 0.02, records.NAME: 0.1}
"""Seconds between two inputs, where nobody answers that the former was dealt with."""

MORE_KEYS = 256 * 6  # keys in Redis: slot queues, records and parking lots of all slots
MORE_ZNODES = 2000
MORE_REDIS = 400 * 2**20  # bytes; dead letters may have 256 MiB


@dataclass
class FuzzVerdict:
    """What came of a run.

    Attributes:
        answers: how many inputs had an answer of which class, by surface.
        findings: what is wrong, once each, by signature.
        memory: of each process.
        counts: keys, znodes and bytes, before and after.
        asked: health questions by name, and how often each was asked.
    """

    answers: dict[str, Counter[str]] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def lines(self) -> list[str]:
        said = []
        for name, answers in self.answers.items():
            classes = ", ".join(f"{kind} {count}" for kind, count in answers.most_common(14))
            said.append(f"{name}: {answers.total()} inputs: {classes}")
        said += self.memory.lines()
        said += [
            f"{what}: {before} before, {after} after"
            for what, (before, after) in self.counts.items()
        ]
        said += [f"asked {count} times: {what}" for what, count in self.asked.items()]
        return said + [f"FAULT: {text[:1500]}" for text in self.findings.values()]


class FuzzFindings:
    """What is wrong, with the inputs that may have done it. Threads: any."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self.found: dict[str, str] = {}

    def note(self, signature: str, text: str, inputs: Sequence[Input]) -> None:
        """Keep a finding, and its inputs in a file, unless it was found before."""
        with self._lock:
            if signature in self.found:
                return
            name = hashlib.sha256(signature.encode()).hexdigest()[:10]
            path = self._folder / f"{name}.json"
            self.found[signature] = f"{text} [--replay {path}]"
        save(path, text, inputs)
        say(f"FAULT: {text[:600]} [{path}]")


class Feeder:
    """Puts inputs into one surface in a thread of its own. Threads: any.

    Args:
        surface: which.
        seed: of all chance.
        findings: where bad answers go.
    """

    def __init__(self, surface: Surface, seed: str, findings: FuzzFindings) -> None:
        self.surface = surface
        self.answers: Counter[str] = Counter()
        self.latest: deque[Input] = deque(maxlen=SUSPECTS)
        self.error = ""
        self._chance = Random(f"{seed}:{surface.name}")  # noqa: S311 - no secret
        self._findings = findings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End after the present input, and mend what others need."""
        self._stop.set()
        self._thread.join()
        self.surface.rest()

    def _run(self) -> None:
        try:
            while not self._stop.wait(PACE.get(self.surface.name, 0)):
                self.put(self.surface.draw(self._chance))
        except Exception:
            self.error = traceback.format_exc()

    def put(self, what: Input) -> Answered:
        """Put an input in and note its answer."""
        self.latest.append(what)
        answer = self.surface.send(what)
        self.answers[answer.kind] += 1
        if answer.fault:
            signature = f"{what.surface}: {_without_numbers(answer.fault)}"
            self._findings.note(signature, f"{what.surface}: {answer.fault}", [what])
        return answer


class ClusterWatch:
    """Looks at a cluster while it is fuzzed. Threads: one."""

    def __init__(self, one: Target, findings: FuzzFindings, feeders: Sequence[Feeder]) -> None:
        self._target = one
        self._findings = findings
        self._feeders = feeders
        self._logs = LogReader(one.cluster.logs)
        self._logs.news()
        self.memory = Memory(rest=one_sample(one))
        self.questions = list(_questions(one))
        self._advanced = one.cluster.advancing(one.healthy, 1)
        self._crawled = time.monotonic()

    def look(self) -> bool:
        """Look at everything once; return whether the run can go on."""
        self.memory.sample(self._target.cluster.processes())
        self.read_logs()
        for question in self.questions:
            if wrong := question.look():
                self.note(wrong, wrong)
        self._look_at_crawl()
        changes = self._target.cluster.changes()
        for change in changes:
            self.note(change, change)
        return not changes

    def read_logs(self) -> None:
        """Note the tracebacks that came since the last time."""
        for process, text in self._logs.news().items():
            for trace in traces(text):
                if not trace.excused:
                    what = f"{trace.head:.300}\n{trace.error:.300} at {trace.place}"
                    kind = process.rstrip("0123456789-")
                    signature = f"{kind} {trace.place} {trace.error.partition(':')[0]}"
                    self.note(signature, f"traceback in {process}: {what}\n{trace.text}")

    def _look_at_crawl(self) -> None:
        if self._advanced():
            self._advanced = self._target.cluster.advancing(self._target.healthy, 1)
            self._crawled = time.monotonic()
        elif (late := time.monotonic() - self._crawled) > HANGS:
            self.note("crawl", f"not every healthy project crawled a page in {late:.0f} s")

    def ask_again(self) -> None:
        """Ask everything until it is answered, however short the run was, or hangs."""
        began = time.monotonic()
        for question in self.questions:
            while not (wrong := question.look()) and question.answered < began:
                time.sleep(LOOK)
            if wrong:
                self.note(wrong, wrong)

    def note(self, signature: str, text: str) -> None:
        suspects = [each for feeder in self._feeders for each in list(feeder.latest)]
        self._findings.note(_without_numbers(signature), text, suspects)


def one_sample(one: Target) -> dict[str, int]:
    """Return what the processes have in memory now."""
    return Memory().sample(one.cluster.processes())


def _questions(one: Target) -> Iterator[Question]:
    yield Question("the web UI's overview and first page", one.web_answers, HANGS)
    yield Question("WebDAV's list of projects", one.webdav_answers, HANGS)
    for address in one.addresses:
        yield Question(f"XML-RPC of {address}", one.rpc_answers(address), HANGS)


def _without_numbers(text: str) -> str:
    """Return a text without what differs from one time to the next."""
    kept = "".join("0" if each.isdigit() else each for each in text[:160])
    return " ".join(kept.split())


def fuzz(
    folder: Path,
    what: Sequence[str],
    seconds: float,
    seed: str,
    preload: Path | None = None,
    least: int = 1,
) -> FuzzVerdict:
    """Fuzz surfaces of a cluster of its own at the same time, and judge.

    Args:
        folder: for the cluster's data and logs, and for what is found.
        what: names of surfaces.
        seconds: how long, at least.
        seed: of all chance; what real messages look like depends on the crawl, and is kept.
        preload: a folder whose ``sitecustomize.py`` spoils the processes.
        least: inputs that each surface gets, however long that takes.
    """
    with _judged(folder, preload) as (one, findings, verdict):
        feeders = [Feeder(one.surface(name), seed, findings) for name in what]
        watch = ClusterWatch(one, findings, feeders)
        verdict.memory = watch.memory
        say(f"{', '.join(what)} for {seconds:g} s, {least} inputs each at least")
        _run(feeders, watch, seconds, least)
        _finish(one, watch, feeders, verdict)
    return verdict


def replay(folder: Path, inputs: Iterable[Input]) -> FuzzVerdict:
    """Put inputs into a cluster of their own one by one, and tell after each what it did."""
    with _judged(folder, None) as (one, findings, verdict):
        feeders: dict[str, Feeder] = {}
        watch = ClusterWatch(one, findings, [])
        verdict.memory = watch.memory
        for number, each in enumerate(inputs):
            if each.surface not in feeders:
                feeders[each.surface] = Feeder(one.surface(each.surface), "", findings)
            known = len(findings.found)
            answer = feeders[each.surface].put(each)
            time.sleep(0.3)  # for the logs of those who do not answer
            watch.look()
            watch.read_logs()
            mark = "  <-- this one" if len(findings.found) > known else ""
            say(f"{number} {each.surface} {each.kind}: {answer.kind}{mark}")
        _finish(one, watch, list(feeders.values()), verdict)
    return verdict


@contextmanager
def _judged(
    folder: Path, preload: Path | None
) -> Iterator[tuple[Target, FuzzFindings, FuzzVerdict]]:
    """Give a cluster, and compare its keys and znodes before and after."""
    verdict, findings = FuzzVerdict(), FuzzFindings(folder / "findings")
    with target(folder, preload) as one:
        say("the cluster crawls")
        before = _counts(one)
        yield one, findings, verdict
        after = _counts(one)
        limits = {"keys": MORE_KEYS, "znodes": MORE_ZNODES, "MiB of Redis": mib(MORE_REDIS)}
        for name, most in limits.items():
            verdict.counts[name] = (before[name], after[name])
            if after[name] - before[name] > most:
                findings.note(name, f"{name}: {before[name]} before, {after[name]} after", [])
        verdict.findings = dict(findings.found)


def _run(feeders: Sequence[Feeder], watch: ClusterWatch, seconds: float, least: int) -> None:
    until = time.monotonic() + seconds

    def enough() -> bool:
        fed = min(feeder.answers.total() for feeder in feeders)
        return time.monotonic() >= until and fed >= least

    for feeder in feeders:
        feeder.start()
    try:
        while not enough() and watch.look():
            if any(feeder.error for feeder in feeders):
                break
            time.sleep(LOOK)  # logs, memory and pages are looked at
    finally:
        for feeder in feeders:
            feeder.end()


def _finish(
    one: Target, watch: ClusterWatch, feeders: Sequence[Feeder], verdict: FuzzVerdict
) -> None:
    """Let the crawl end, look a last time, and write everything down."""
    for feeder in feeders:
        verdict.answers[feeder.surface.name] = feeder.answers
        if feeder.error:
            watch.note(feeder.error, f"the suite's own fault:\n{feeder.error}")
    one.end()
    say("the inputs are in; the crawl ends")
    for lost in one.cluster.unfinished(FINISH, one.healthy):
        watch.note(lost, lost)
    for _ in range(2):  # the last record of a log waits for a second look
        watch.look()
    watch.ask_again()
    verdict.memory.end = one_sample(one)
    for fault in verdict.memory.faults():
        watch.note(fault, fault)
    verdict.asked = {each.what: each.asked for each in watch.questions}


def _counts(one: Target) -> dict[str, int]:
    return {
        "keys": one.keys(),
        "znodes": one.znodes(),
        "MiB of Redis": mib(one.redis_memory()),
    }
