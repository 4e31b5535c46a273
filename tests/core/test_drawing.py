"""The picture of the protocol is the code's own table."""

import importlib.util
from pathlib import Path

from pyspider_zk.core.phases import TRANSITIONS, Event, Phase

SCRIPT = Path(__file__).parents[2] / "docs" / "internals" / "draw.py"


def test_the_picture_of_the_phases_is_up_to_date():
    spec = importlib.util.spec_from_file_location("draw", SCRIPT)
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)

    assert draw.PICTURE.read_text(encoding="utf-8") == draw.draw()


def test_every_phase_is_left_and_every_event_is_used():
    assert {phase for phase, _ in TRANSITIONS} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(Event)
