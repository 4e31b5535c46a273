"""Draws the phases of a slot from the code's own table: ``python docs/internals/draw.py``."""

from pathlib import Path

from pyspider_zk.cluster.records import TRANSITIONS, Phase, Trigger

PICTURE = Path(__file__).with_name("slot-phases.svg")

WIDTH, HEIGHT, MIDDLE = 980, 350, 180
BOX_WIDTH, BOX_HEIGHT = 130, 50
LINE = 18  # between two lines of text

_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" \
font-size="13" text-anchor="middle" role="img" aria-label="The phases of a slot">
<!-- drawn by docs/internals/draw.py from pyspider_zk/cluster/records.py; do not edit -->
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="#333"/></marker></defs>
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
"""


def draw() -> str:
    """Return the picture."""
    places = {phase: 100 + number * 370 for number, phase in enumerate(Phase)}
    parts = [_box(phase, x) for phase, x in places.items()]
    for (start, end), events in _edges().items():
        parts.append(_arrow(places[start], places[end], events))
    return _HEAD + "\n".join(parts) + "\n</svg>\n"


def _edges() -> dict[tuple[Phase, Phase], list[Trigger]]:
    edges: dict[tuple[Phase, Phase], list[Trigger]] = {}
    for (start, event), end in TRANSITIONS.items():
        edges.setdefault((start, end), []).append(event)
    return edges


def _box(phase: Phase, x: int) -> str:
    left, top = x - BOX_WIDTH // 2, MIDDLE - BOX_HEIGHT // 2
    return (
        f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="12"'
        f' fill="#eef3fb" stroke="#333"/>\n'
        f'<text x="{x}" y="{MIDDLE + 5}" font-size="16" font-weight="bold">{phase}</text>'
    )


def _arrow(start: int, end: int, events: list[Trigger]) -> str:
    """Draw an arrow: to the right straight or above, to the left below, to itself a loop."""
    if start == end:
        return _loop(start, events)
    side = BOX_WIDTH // 2 * (1 if end > start else -1)
    bend = MIDDLE + (0 if end > start else 120)
    middle = (start + end) // 2
    path = f"M{start + side} {MIDDLE} Q{middle} {bend} {end - side} {MIDDLE}"
    text = MIDDLE - 12 - LINE * (len(events) - 1) if end > start else bend - 30
    return _path(path) + _label(middle, text, events)


def _loop(x: int, events: list[Trigger]) -> str:
    top = MIDDLE - BOX_HEIGHT // 2
    path = f"M{x - 30} {top} C{x - 60} {top - 80} {x + 60} {top - 80} {x + 30} {top}"
    return _path(path) + _label(x, top - 72 - LINE * (len(events) - 1), events)


def _path(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="#333" marker-end="url(#tip)"/>\n'


def _label(x: int, y: int, events: list[Trigger]) -> str:
    lines = (
        f'<text x="{x}" y="{y + number * LINE}">{event}</text>'
        for number, event in enumerate(events)
    )
    return "\n".join(lines)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
