"""A processor that tells which scripts it has in memory."""

import json
import os
from pathlib import Path
from typing import Any

from pyspider_zk.hooks import ClusterProcessor

TOLD = "scripts.json"


class TellingProcessor(ClusterProcessor):
    """Writes the names into its working folder whenever it looks for a task."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        before = self.inqueue._before

        def tell() -> None:
            before()
            draft = Path(f"{TOLD}.{os.getpid()}")
            draft.write_text(json.dumps(sorted(self.project_manager.projects)), encoding="utf-8")
            draft.replace(TOLD)

        self.inqueue._before = tell
