"""How a member runs: what surrounds its rounds."""

import io
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspider.libs.direct_lines import DirectLines
from pyspider.scheduler.scheduler import logger

from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.scheduling.member import ClusterScheduler
from tests.support.world import SLOTS, World


def test_its_lines_about_tasks_are_flushed_together_while_it_runs(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper((tmp_path / "log").open("wb"), line_buffering=True)
    handler = logging.StreamHandler(stream)
    monkeypatch.setattr(logger, "handlers", [handler])
    seen = []

    def refuse(*_: object) -> Any:
        seen.extend(map(type, handler.filters))
        raise ClusterError("refused")

    databases = {f"{kind}db": world.database(kind) for kind in ("task", "project", "result")}
    scheduler = ClusterScheduler(
        **databases,
        newtask_queue=None,
        status_queue=None,
        out_queue=world.fetcher,
        settings=Settings(slots=SLOTS),
        queues=world.broker.queues(SLOTS),
        coordinate=refuse,
    )
    server = threading.Thread(target=scheduler.xmlrpc_run, kwargs={"port": 0})
    server.start()
    with pytest.raises(ClusterError, match="refused"):
        scheduler.run()  # on the main thread, where signals are handled
    server.join()

    assert seen == [DirectLines]
    assert handler.filters == []
    stream.close()
