"""What is measured, one module each: ``scenario`` takes a bench and returns figures."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.bench.bench import Bench
from tests.bench.scenarios import (
    accept,
    decide,
    duplicates,
    endurance,
    full_cycle,
    idle,
    link_latency,
    new_task_latency,
    operations,
    profile,
    schedulers,
    slot_queues,
    start_up,
    takeover,
)

SCENARIOS: dict[str, Callable[[Bench], Mapping[str, Any]]] = {
    "full_cycle": full_cycle.scenario,
    "duplicates": duplicates.scenario,
    "schedulers": schedulers.scenario,
    "new_task_latency": new_task_latency.scenario,
    "link_latency": link_latency.scenario,
    "takeover": takeover.scenario,
    "start_up": start_up.scenario,
    "idle": idle.scenario,
    "operations": operations.scenario,
    "accept": accept.scenario,
    "slot_queues": slot_queues.scenario,
    "decide": decide.scenario,
    "profile": profile.scenario,
    "endurance": endurance.scenario,
}
