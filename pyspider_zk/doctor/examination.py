"""Examination: all checks at once, each for itself and within a limit of time."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from queue import Empty, SimpleQueue

from pyspider_zk.doctor.findings import DoctorCheck, Finding, failed
from pyspider_zk.errors import ClusterError, ConfigError, brief

PATIENCE = 30.0  # seconds for all checks
HIDDEN = "***"

Hide = Callable[[str], str]


Diagnosis = Sequence[tuple[str, Finding]]
"""What all checks found, in their order, with the part of the installation that each is about."""


def examine(checks: Sequence[DoctorCheck], hide: Hide, patience: float = PATIENCE) -> Diagnosis:
    """Run all checks, each in a thread; blocks for so many seconds at most.

    Args:
        hide: takes the secrets out of a text.
    """
    done: SimpleQueue[tuple[int, list[Finding]]] = SimpleQueue()
    for number, check in enumerate(checks):
        work = (number, check, done)
        threading.Thread(target=_work, args=work, name=check.part, daemon=True).start()
    found = dict(_awaited(done, len(checks), time.monotonic() + patience))
    return [
        (check.part, _hidden(finding, hide))
        for number, check in enumerate(checks)
        for finding in found.get(number, [_late(patience)])
    ]


def without(secrets: Collection[str]) -> Hide:
    """Return what takes these secrets out of a text, the longest first, and control characters."""
    longest_first = sorted(filter(None, secrets), key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in longest_first:
            text = text.replace(secret, HIDDEN)
        return "".join(each if each.isprintable() else " " for each in text)

    return hide


def _work(number: int, check: DoctorCheck, done: "SimpleQueue[tuple[int, list[Finding]]]") -> None:
    """Run a check; whatever it raises is its finding."""
    found: list[Finding] = []
    try:
        found.extend(check.run())
    except ConfigError as error:
        found.extend(failed(fault, "correct it in the configuration") for fault in error.faults)
    except ClusterError as error:
        found.append(failed(str(error), "correct that, and run the doctor again"))
    except Exception as error:  # a check must not end the others
        found.append(failed(f"not examined: {brief(error)}", "mend that, and run the doctor again"))
    done.put((number, found))


def _awaited(
    done: "SimpleQueue[tuple[int, list[Finding]]]", count: int, deadline: float
) -> Iterator[tuple[int, list[Finding]]]:
    """Yield what ends before the deadline; nobody waits for the others."""
    for _ in range(count):
        try:
            yield done.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            return


def _late(patience: float) -> Finding:
    return failed(
        f"did not end within {patience:g} s: something takes connections and does not answer",
        "look at the machine and the network between, and run the doctor again",
    )


def _hidden(finding: Finding, hide: Hide) -> Finding:
    return Finding(finding.grade, hide(finding.text), hide(finding.remedy))
