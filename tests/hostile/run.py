"""One run: a cluster, the trial by pages, the load of strangers, and what was wrong with it.

Of hostile pages nothing may run in what a cluster says afterwards, or forge a line of a log.
"""

import csv
import io
import re
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urljoin, urlsplit
from xmlrpc.client import Error as XmlRpcError
from xmlrpc.client import ServerProxy, Transport

from tests.hostile.besieged import (
    FETCHER,
    METRICS,
    PASSWORD,
    SCHEDULER,
    USER,
    Besieged,
    PeakMemory,
    site,
)
from tests.hostile.kinds import FORGED, HostileKind
from tests.hostile.load import StrangerLoad, under
from tests.hostile.trial import HOSTILE, MOST_SLOWDOWN, STALLS, Trial
from tests.support.connected import rpc_url
from tests.support.processes import PROGRAM

MOST_BY_PAGES = 300  # MB that a process may take beyond its rest
MOST_BY_STRANGERS = 200
MOST_LOGGED = 4 * 2**20  # bytes that all strangers may bring into one log
PATIENCE = 30.0  # seconds for an answer
_QUIET: Any = {"capture_output": True, "timeout": 120, "check": False}


def under_pages(cluster: Besieged, kinds: Sequence[HostileKind], pages: int) -> Iterator[str]:
    """Crawl both sites; yield a sentence for each promise that was broken."""
    memory, before = PeakMemory(cluster.running.pid), cluster.processes()
    with ExitStack() as stack:
        healthy, hostile = (stack.enter_context(site(cluster.running.webui)) for _ in range(2))
        crawl = cluster.crawl()
        home = healthy[kinds[0].name].rpartition("/")[0]
        trial = Trial(cluster.settings, crawl, home, hostile, kinds, pages)
        usual = trial.usual()
        with memory.watched():
            beside = trial.beside()
        yield from trial.faults()
    say(f"{len(kinds)} kinds of pages; healthy project alone {usual:.1f} s, beside {beside:.1f} s")
    say(f"MB beyond rest: {memory.grown()}")
    if beside > MOST_SLOWDOWN * usual + STALLS:
        yield f"the healthy project took {beside / usual:.1f} times its usual time"
    yield from _too_large(memory, MOST_BY_PAGES)
    yield from (f"process {pid} ended" for pid in before - cluster.processes())
    if not SHOWN - {kind.name for kind in kinds}:
        yield from _shown_wrongly(cluster)


def under_strangers(
    cluster: Besieged, loads: Sequence[StrangerLoad], at_once: int = 1
) -> Iterator[str]:
    """Load all ports, with some kinds at a time; yield a sentence for each broken promise."""
    memory, before = PeakMemory(cluster.running.pid), cluster.processes()
    sizes = {name: path.stat().st_size for name, path in cluster.logs().items()}
    doors = cluster.doors()
    for group in (loads[first : first + at_once] for first in range(0, len(loads), at_once)):
        names = ", ".join(load.name for load in group)
        with memory.watched(), under(group, list(doors.values())):
            found = [f"under {names}: {fault}" for fault in _silent(cluster, doors)]
        say(f"under {names}: MB beyond rest: {_notable(memory.grown())}")
        yield from found
        yield from (f"under {names}: {fault}" for fault in _too_large(memory, MOST_BY_STRANGERS))
    yield from (f"process {pid} ended" for pid in before - cluster.processes())
    for name, path in cluster.logs().items():
        told = path.read_bytes()[sizes.get(name, 0) :]
        if len(told) > MOST_LOGGED:
            yield f"log of {name} grew by {len(told)} bytes"
        if found := re.search(rb"Traceback.{,2000}", told, re.S):
            yield f"log of {name} has a traceback: {found[0].decode(errors='replace')}"


def _silent(cluster: Besieged, doors: Mapping[str, str]) -> Iterator[str]:
    """Ask all ports as somebody who may; yield what does not answer."""
    for path in ("/cluster/projects", "/api/v1/overview"):
        status, told = _page(cluster, path)
        if status != 200:
            yield f"web UI {path}: {status} {told:.200}"
    calls = {name: partial(_call, doors[name], cluster.secret) for name in (SCHEDULER, FETCHER)}
    for path in ("/metrics", "/healthz"):
        calls[f"{METRICS} {path}"] = partial(_get, urljoin(doors[METRICS], path))
    for name, call in calls.items():
        try:
            call()
        except (OSError, HTTPException, XmlRpcError) as error:
            yield f"{name}: {error!r:.200}"
    done = subprocess.run([*PROGRAM, "status", "--json"], cwd=cluster.folder, **_QUIET)
    if done.returncode != 0:
        yield f"status: code {done.returncode}: {done.stderr.decode()[-500:]}"


def _get(url: str) -> None:
    urllib.request.urlopen(url, timeout=PATIENCE).close()  # noqa: S310 - our own


def _call(url: str, secret: str) -> None:
    with ServerProxy(rpc_url(urlsplit(url).netloc, secret), transport=_Patient()) as proxy:
        proxy.size()


class _Patient(Transport):
    """Transport of XML-RPC whose calls end."""

    def make_connection(self, host: object) -> object:
        link = super().make_connection(host)  # type: ignore[arg-type]
        link.timeout = PATIENCE
        return link


def _too_large(memory: PeakMemory, most: int) -> Iterator[str]:
    for name, grown in memory.grown().items():
        if grown > most:
            yield f"{name} took {grown} MB more than at rest"


def _notable(grown: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in grown.items() if size >= 10}


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


SHOWN = {"title-script", "title-formula", "failure-escapes"}
"""The kinds that are looked for."""
ANSWERS = (
    f"/api/v1/tries?project={HOSTILE}&limit=100",
    f"/api/v1/task?project={HOSTILE}&id=title-script-0",
    f"/api/v1/task?project={HOSTILE}&id=failure-escapes-0",
    f"/api/v1/results?project={HOSTILE}&limit=500",
    f"/api/v1/failures/tasks?project={HOSTILE}&limit=1000",
)
LONGEST_ANSWER = 4_000_000
"""Characters."""

_RUNS = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def _page(cluster: Besieged, path: str) -> tuple[int, str]:
    """Return status and text of what the web UI answers an admin."""
    address = cluster.running.webui.removeprefix("http://").rstrip("/")
    login = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    link = HTTPConnection(address, timeout=PATIENCE)
    try:
        link.request("GET", path, headers={"Authorization": f"Basic {login}"})
        with link.getresponse() as answer:
            return answer.status, answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        return 0, repr(error)
    finally:
        link.close()


def _shown_wrongly(cluster: Besieged) -> Iterator[str]:
    """Yield a sentence for each place where a page's text is more than text."""
    for path in ANSWERS:
        status, text = _page(cluster, path)
        if status != 200 or len(text) > LONGEST_ANSWER:
            yield f"{path}: {status}, {len(text)} characters: {text:.200}"
    for path in (f"/results/dump/{HOSTILE}.{form}" for form in ("csv", "txt", "json")):
        status, text = _page(cluster, path)
        if status != 200 or "title-formula" not in text:
            yield f"{path}: {status} {text:.200}"
        if path.endswith(".csv"):
            yield from map(
                f"{path}: a spreadsheet runs {{!r:.80}}".format, _run_by_spreadsheets(text)
            )
    for name, path in cluster.logs().items():
        for line in path.read_bytes().splitlines():
            if b"\x1b" in line or re.match(rb"\W*" + FORGED.encode(), line):
                yield f"log of {name}: {line[:200]!r}"


def _run_by_spreadsheets(text: str) -> Iterator[str]:
    csv.field_size_limit(2**27)
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if _RUNS.match(cell) and not _NUMBER.fullmatch(cell):
                yield cell
