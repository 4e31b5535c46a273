"""Requests to an operation of the HTTP API, which schemathesis draws from its document."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import data
from schemathesis import GenerationMode


def draw_requests(operation: Any, number: int, examples: int, use: Callable[[Any], object]) -> None:
    """Draw requests by a seed, right and wrong ones, and hand each to a function."""
    modes = [GenerationMode.POSITIVE]
    if operation.body or operation.query:
        modes.append(GenerationMode.NEGATIVE)

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data())
    def draw(drawn: Any) -> None:
        for mode in modes:
            use(drawn.draw(operation.as_strategy(generation_mode=mode)))

    draw()
