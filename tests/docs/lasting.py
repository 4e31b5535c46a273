"""Commands that last until Ctrl-C: which ones do, and when what they start is there."""

import json
import re
from contextlib import chdir, suppress
from pathlib import Path

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.errors import ClusterError
from pyspider_zk.local.folder import running_in
from tests.support.running_cluster import listens, settings_of

UP = "pyspider-zk up"
SITE = "python3 -m http.server"

_WATCHING = ("--watch", "events --follow", "logs --follow")
_COMPONENTS = ("scheduler", "fetcher", "processor", "result-worker", "renderer", "webui")
_OURS = re.compile(r"([A-Z_]+=\S+ )*pyspider-zk ")
_OF_UP = 8
"""Members and components of an `up` with two schedulers or more."""


def is_lasting(command: str) -> bool:
    """Return whether a command runs until Ctrl-C."""
    lasting = ("up", *_COMPONENTS, *_WATCHING)
    return command.startswith(SITE) or bool(
        _OURS.match(command) and any(f" {each} " in f"{command} " for each in lasting)
    )


def is_there(command: str, folder: Path, log: Path, before: int) -> bool:
    """Return whether what a lasting command starts can be used.

    Args:
        log: what it printed so far.
        before: how many members and components there were before it.
    """
    if command.startswith(SITE):
        return listens(f"http://127.0.0.1:{command.split()[3]}")
    if command.startswith(UP):
        return _is_up(folder)
    if any(each in command for each in _WATCHING):
        return bool(log.read_text())
    return running(folder) > before


def running(folder: Path) -> int:
    """Return how many members and components the cluster of a folder has; 0 without one."""
    settings = _settings(folder)
    if settings is None:
        return 0
    with suppress(ClusterError), Directory(settings) as directory:
        cluster = directory.read()
        return len(cluster.members) + sum(map(len, cluster.components.values()))
    return 0


def _is_up(folder: Path) -> bool:
    found = running_in(folder / "data")
    return found is not None and listens(found.webui) and running(folder) >= _OF_UP


def _settings(folder: Path) -> Settings | None:
    """Return what leads to the cluster of `up`, or else to that of config.json."""
    if found := running_in(folder / "data"):
        return settings_of(found)
    config = folder / "config.json"
    if not config.exists():
        return None
    with chdir(folder):  # it may name other files
        return settings_from(json.loads(config.read_text())["zookeeper"])
