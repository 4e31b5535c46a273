"""Draws which folder imports which: ``python docs/internals/draw_imports.py``."""

import ast
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "pyspider_zk"
PICTURE = Path(__file__).with_name("imports.svg")

CELL = 26  # of the table, in pixels
NAMES = 130  # width of the column of names
HEAD = 110  # height of the row of names

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" \
font-size="12" role="img" aria-label="Which folder imports which">
<!-- drawn by docs/internals/draw_imports.py from the imports; do not edit -->
<rect width="{width}" height="{height}" fill="white"/>
"""


def draw() -> str:
    """Return the picture: a row imports from a column, and how many of its modules do."""
    parts, counts = layers(), imports()
    width, height = NAMES + CELL * len(parts) + 10, HEAD + CELL * len(parts) + 10
    drawn = [_HEAD.format(width=width, height=height)]
    for number, name in enumerate(parts):
        drawn += _names(number, name)
        drawn += [_cell(number, column, counts[name, to]) for column, to in enumerate(parts)]
    return "".join(drawn) + "</svg>\n"


def layers() -> list[str]:
    """Return the names in the order of the contract that the linter checks, the top first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    names = (name for layer in contract["layers"] for name in layer.split(" | "))
    return [name.strip().removeprefix(f"{PACKAGE}.") for name in names]


def imports() -> Counter[tuple[str, str]]:
    """Return how many modules of the first import something of the second."""
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        own = file.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")
        found.update((own, to) for to in _imported(file) if to != own)
    return found


def _imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    full = [f"{node.module}.{alias.name}" for node in froms for alias in node.names]
    return {name.split(".")[1] for name in full if name.startswith(f"{PACKAGE}.")}


def _names(number: int, name: str) -> list[str]:
    middle = HEAD + CELL * number + CELL // 2 + 4
    x = NAMES + CELL * number + CELL // 2 + 4
    return [
        f'<text x="{NAMES - 8}" y="{middle}" text-anchor="end">{name}</text>\n',
        f'<text x="{x}" y="{HEAD - 8}" transform="rotate(-60 {x} {HEAD - 8})">{name}</text>\n',
    ]


def _cell(row: int, column: int, count: int) -> str:
    """Draw a cell: the diagonal dark, what imports nothing not at all."""
    if row != column and not count:
        return ""
    x, y = NAMES + CELL * column, HEAD + CELL * row
    fill = "#444" if row == column else "#cfe0f7"
    box = f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" stroke="white" fill="{fill}"/>'
    if row == column:
        return box + "\n"
    text = f'<text x="{x + CELL // 2}" y="{y + CELL // 2 + 4}" text-anchor="middle">{count}</text>'
    return box + text + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
