"""Scrapy's schedulers, in an environment of their own below ``build``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.bench import BenchPlace
from tests.support.processes import ROOT

KINDS = {"scrapy-redis": "redis", "Scrapy disk queue": "disk"}
COMPARED = (
    "Scrapy's schedulers only keep requests: dupe filter and queue, one request in and one out for"
    " each page. They store no outcome and know no projects, rates or retries."
)

_FOLDER = Path(__file__).with_name("scrapy")
_ENVIRONMENT = ROOT / "build/scrapy"
_LOCK = _FOLDER / "requirements.txt"


def driven(name: str, place: BenchPlace, seconds: float, links: tuple[int, int] = (1, 0)) -> Any:
    """Return the figures of a scheduler that is given pages for so many seconds."""
    folder = place.folder / "scrapy"
    folder.mkdir()
    arguments = [KINDS[name], folder, place.redis, seconds, *links]
    done = subprocess.run(
        [_python(), "-W", "ignore", str(_FOLDER / "drive.py"), *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout)


def _python() -> Path:
    """Return the environment's Python; make it if it is not there, or not as locked."""
    python, note = _ENVIRONMENT / "bin/python", _ENVIRONMENT / "installed.txt"
    if note.exists() and note.read_text(encoding="utf-8") == _LOCK.read_text(encoding="utf-8"):
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(_ENVIRONMENT)], check=True)
    install = ["install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([str(python), "-m", "pip", *install, "-r", str(_LOCK)], check=True)
    note.write_text(_LOCK.read_text(encoding="utf-8"), encoding="utf-8")
    return python
