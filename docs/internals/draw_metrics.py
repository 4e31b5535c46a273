"""Writes the table of all metrics: ``python docs/internals/draw_metrics.py``."""

from pathlib import Path

from pyspider_zk.metrics.families import FAMILIES, FREE, Family

PAGE = Path(__file__).parents[1] / "how-to" / "monitor.md"
BEGIN, END = (
    "<!-- metrics: written by docs/internals/draw_metrics.py -->",
    "<!-- end of metrics -->",
)

_HEAD = "| metric | kind | of | meaning |\n|---|---|---|---|\n"


def table() -> str:
    """Return the rows of all metrics."""
    return _HEAD + "".join(map(_row, FAMILIES))


def page(text: str) -> str:
    """Return the page with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def _row(family: Family) -> str:
    labels = "".join(f"; `{label}`: {_values(values)}" for label, values in family.labels)
    source = family.source.value
    return f"| `{family.full_name}` | {family.kind} | {source} | {family.meaning}{labels} |\n"


def _values(values: tuple[str, ...]) -> str:
    return "any" if values == FREE else ", ".join(f"`{each}`" for each in values)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
