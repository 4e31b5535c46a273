"""The hash of a project never changes."""

import pytest

from pyspider_zk.projects.slots import slot_of


@pytest.mark.parametrize(
    ("project", "slots", "slot"),
    [
        ("demo", 256, 160),
        ("demo", 16384, 8096),
        ("_send_message", 256, 184),
        ("projekt_ü", 256, 216),
        ("a" * 64, 256, 85),
        ("demo", 1, 0),
    ],
)
def test_a_project_keeps_its_slot_for_ever(project, slots, slot):
    assert slot_of(project, slots) == slot


def test_projects_spread_over_all_slots():
    assert {slot_of(f"project_{number}", 64) for number in range(1000)} == set(range(64))
