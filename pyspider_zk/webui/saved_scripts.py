"""Saved scripts: whatever saves one in the web UI, a version of it is kept.

The editor, WebDAV and the API have one project database in common, so it is done there.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

from flask import has_request_context

from pyspider_zk.errors import Unavailable
from pyspider_zk.projects.rows import is_number
from pyspider_zk.projects.script_versions import ScriptVersions
from pyspider_zk.webui.api.backend import user
from pyspider_zk.webui.page_data import ShownProjects

logger = logging.getLogger(__name__)


class SavingProjects(ShownProjects):
    """A project database that keeps versions of the scripts that are saved with it.

    The script before a save is kept as well, unless it is the newest version: it may be from before
    there were versions, or written past the web UI. That a version cannot be kept undoes no save,
    and is logged. Copies, which only read, keep nothing. Threads: as its base.
    """

    def __init__(self, projectdb: Any, versions: ScriptVersions) -> None:
        super().__init__(projectdb)
        self._versions = versions

    def insert(self, name: str, obj: Mapping[str, Any]) -> None:
        """Add a project."""
        self.original.insert(name, obj)
        self._keep(name, None, obj["script"])

    def update(self, name: str, obj: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Change columns of a project; return what the database returns."""
        changes = {**(obj or {}), **more}
        if "script" not in changes:
            return self.original.update(name, changes)
        before = self.get(name, ["script", "updatetime"])
        found = self.original.update(name, changes)
        if before and found:
            self._keep(name, before, changes["script"])
        return found

    def _keep(self, name: str, before: Mapping[str, Any] | None, script: str) -> None:
        who, now = user() if has_request_context() else "", time.time()
        try:
            if before is None:
                self._versions.drop([name])  # those of another project that had the name
            else:
                at = before["updatetime"]  # anybody may have written it
                at = at if is_number(at) and at < now else now
                self._versions.keep(name, before["script"] or "", "", at)
            self._versions.keep(name, script, who, now)
        except Unavailable as error:
            logger.warning("the script of %s is saved, but its versions are not: %s", name, error)
