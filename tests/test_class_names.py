"""A class's name says which it is: none is there twice, in the package and its tests."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def classes() -> dict[str, list[str]]:
    """Return where each class is, by its name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for folder in ("pyspider_zk", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_class_has_the_name_of_another() -> None:
    found = classes()

    assert "ClusterScheduler" in found
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
