"""The pictures of the internals are drawn from the code as it is."""

import importlib.util
from pathlib import Path

import pytest

from pyspider_zk.cluster.records import TRANSITIONS, Phase, Trigger

INTERNALS = Path(__file__).parents[2] / "docs" / "internals"


@pytest.mark.parametrize("script", ["draw.py", "draw_imports.py"])
def test_a_picture_is_up_to_date(script: str):
    spec = importlib.util.spec_from_file_location("draw", INTERNALS / script)
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)

    assert draw.PICTURE.read_text(encoding="utf-8") == draw.draw()


def test_every_phase_is_left_and_every_event_is_used():
    assert {phase for phase, _ in TRANSITIONS} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(Trigger)
