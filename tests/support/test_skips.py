"""In CI a skip is a failure that names what is missing."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.processes import ROOT
from tests.support.skips import WITHOUT_NAMESPACES

IMPORTS = """import pytest
from pyspider_zk.errors import MissingService
from tests.support.network import NotPermitted
from tests.support.needed import skip_without_needed
"""

MODULES = {
    "in_module": "pytest.skip('no abacus', allow_module_level=True)",
    "tests": """
def test_within():
    pytest.skip("no abacus")

@pytest.mark.skipif(True, reason="no abacus")
def test_by_mark():
    pass

@pytest.fixture
def abacus():
    pytest.skip("no abacus")

def test_in_fixture(abacus):
    pass

def test_without_program():
    with skip_without_needed():
        raise MissingService("no abacus")

def test_without_namespaces():
    with skip_without_needed():
        raise NotPermitted("root is needed")
""",
}
FAULT = "would skip, which none may with CI set: "


def run(folder: Path, **environ: str) -> str:
    """Run tests that skip, with the plugin; return what pytest said."""
    for name, text in MODULES.items():
        (folder / f"test_{name}.py").write_text(IMPORTS + text, encoding="utf-8")
    own = {key: value for key, value in os.environ.items() if key not in ("CI", WITHOUT_NAMESPACES)}
    options = ["-c", os.devnull, "-p", "tests.support.skips", "-p", "no:cacheprovider", "-rs"]
    options += ["--continue-on-collection-errors"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder)],
        env=own | {"PYTHONPATH": str(ROOT)} | environ,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_elsewhere_tests_skip(tmp_path: Path) -> None:
    said = run(tmp_path)

    assert re.search(r"^=+ 6 skipped in", said, re.MULTILINE), said


def test_in_ci_a_skip_fails_and_names_what_is_missing(tmp_path: Path) -> None:
    said = run(tmp_path, CI="true")

    assert re.search(r"^=+ 3 failed, 3 errors in", said, re.MULTILINE), said
    assert said.count(f"{FAULT}no abacus") == 5, said
    assert said.count(f"{FAULT}no network namespaces: root is needed") == 1, said


def test_ci_may_do_without_namespaces_and_nothing_else_if_told_so(tmp_path: Path) -> None:
    said = run(tmp_path, CI="true", **{WITHOUT_NAMESPACES: "1"})

    assert re.search(r"^=+ 2 failed, 1 skipped, 3 errors in", said, re.MULTILINE), said
