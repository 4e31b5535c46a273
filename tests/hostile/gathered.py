"""What a cluster says after hostile pages: nothing of them may run, or forge a line of a log."""

import csv
import io
import re
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException

from tests.hostile.besieged import PASSWORD, USER, Besieged
from tests.hostile.kinds import FORGED, SCRIPT
from tests.hostile.trial import HOSTILE

PATIENCE = 30.0  # seconds for an answer
SHOWN = {"title-script", "title-formula", "failure-escapes"}
"""The kinds that are looked for."""
PAGES = (
    f"/results?project={HOSTILE}&limit=500",
    f"/tasks?project={HOSTILE}&limit=500",
    f"/task/{HOSTILE}:title-script-0",
    f"/task/{HOSTILE}:failure-escapes-0",
    f"/debug/{HOSTILE}",
)
_RUNS = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def page(cluster: Besieged, path: str) -> tuple[int, str]:
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


def faults(cluster: Besieged) -> Iterator[str]:
    """Yield a sentence for each place where a page's text is more than text."""
    for path in PAGES:
        status, text = page(cluster, path)
        if status != 200:
            yield f"{path}: {status} {text:.200}"
        if SCRIPT in text or "<script>alert(31337)" in text:
            yield f"{path}: runs what a page says"
    for path in (f"/results/dump/{HOSTILE}.{form}" for form in ("csv", "txt", "json")):
        status, text = page(cluster, path)
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
