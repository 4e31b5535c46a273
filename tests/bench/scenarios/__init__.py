"""What is measured: functions that take a bench and return figures."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.bench.bench import Bench
from tests.bench.scenarios import changes, cycles, latencies, operations, parts, whole_crawl

SCENARIOS: dict[str, Callable[[Bench], Mapping[str, Any]]] = {
    "whole_crawl": whole_crawl.whole_crawl,
    "full_cycle": cycles.full_cycle,
    "duplicates": cycles.duplicates,
    "schedulers": cycles.schedulers,
    "new_task_latency": latencies.new_task_latency,
    "link_latency": latencies.link_latency,
    "takeover": changes.takeover,
    "start_up": changes.start_up,
    "idle": changes.idle,
    "operations": operations.operations,
    "accept": operations.accept,
    "slot_queues": parts.slot_queues,
    "decide": parts.decision,
    "profile": cycles.profile,
    "endurance": cycles.endurance,
}
