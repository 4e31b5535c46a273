"""Look the locked versions up in the public databases of known holes.

Usage: ``python .ci/audit.py``, in the virtual environment. Prints each finding, and what nobody
could be asked about. Ends with 1 if there is a finding, and with 0 without an answer: that a
service is away is no fault of ours, but it is told, for then nothing was looked up.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LOCKS = sorted(Path(__file__).resolve().parent.parent.joinpath("requirements").glob("*.txt"))
SERVICES = ("pypi", "osv")
TIMEOUT = 15  # seconds that a service may take for an answer

Answer = Mapping[str, Any]
"""What pip-audit writes as JSON: ``dependencies``, each with ``vulns`` or a ``skip_reason``."""


def ask(service: str) -> Answer:
    """Return what a service knows about all locked versions; nothing if it does not answer."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--vulnerability-service", service, "--timeout", str(TIMEOUT)]
    command += ["--progress-spinner", "off", "--format", "json"]
    command += [word for lock in LOCKS for word in ("--requirement", str(lock))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        answer: Answer = json.loads(done.stdout)
    except ValueError:
        told = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        sys.stdout.write(f"{service}: {told}\n")
        return {"dependencies": []}
    return answer


def findings(answers: Iterable[Answer]) -> list[str]:
    """Return a line per version with a known hole."""
    return sorted(
        {
            f"{each['name']} {each['version']}: {hole['id']}"
            f" (mended in {', '.join(hole['fix_versions']) or 'no release'})"
            for each in _dependencies(answers)
            for hole in each.get("vulns", ())
        }
    )


def looked_up(answers: Iterable[Answer]) -> set[str]:
    """Return the names that at least one service knew."""
    return {each["name"] for each in _dependencies(answers) if "vulns" in each}


def locked(locks: Iterable[Path] = LOCKS) -> set[str]:
    """Return the names in the lock files."""
    lines = (line for lock in locks for line in lock.read_text(encoding="utf-8").splitlines())
    return {line.partition("==")[0] for line in lines if "==" in line and line[0].isalnum()}


def _dependencies(answers: Iterable[Answer]) -> Iterator[Mapping[str, Any]]:
    for answer in answers:
        yield from answer["dependencies"]


def main() -> int:
    """Ask all services, tell what they know, and return the exit code."""
    answers = [ask(service) for service in SERVICES]
    found, unknown = findings(answers), locked() - looked_up(answers)
    sys.stdout.writelines(f"{line}\n" for line in found)
    if unknown:
        sys.stdout.write(f"NOT looked up, no service knew or answered: {len(unknown)} packages\n")
    sys.stdout.write(f"{len(found)} known holes in {len(looked_up(answers))} packages\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
