"""Checks are isolated from each other, bounded in time, and show no secret."""

import threading
from collections.abc import Iterator

from pyspider_zk.doctor.examination import examine, without
from pyspider_zk.doctor.findings import DoctorCheck, Finding, Grade, ok
from pyspider_zk.errors import ConfigError, Unavailable
from tests.support.waiting import eventually

WELL = DoctorCheck("well", lambda: [ok("fine")])


def raising(error: Exception) -> DoctorCheck:
    def run() -> Iterator[Finding]:
        yield ok("found before")
        raise error

    return DoctorCheck("broken", run)


def told(checks: list[DoctorCheck], patience: float = 30.0) -> list[tuple[str, str, str]]:
    found = examine(checks, without([]), patience)
    return [(part, each.grade.value, each.text) for part, each in found]


def test_a_check_that_raises_is_a_failure_and_the_others_go_on():
    found = told([raising(ValueError("odd")), WELL])

    assert found == [
        ("broken", "ok", "found before"),
        ("broken", "failed", "not examined: ValueError: odd"),
        ("well", "ok", "fine"),
    ]


def test_our_own_errors_are_told_as_they_are():
    found = told([raising(Unavailable("nobody answers")), raising(ConfigError(["one", "two"]))])
    faults = [text for _, grade, text in found if grade == "failed"]
    assert faults == ["nobody answers", "one", "two"]


def test_a_check_that_hangs_does_not_hold_up_the_others():
    goes_on = threading.Event()

    def hang() -> list[Finding]:
        goes_on.wait()
        return []

    late = "did not end within 0.5 s: something takes connections and does not answer"
    expected = [("hung", "failed", late), ("well", "ok", "fine")]
    try:  # a starved machine may need longer for either, once in a while
        eventually(lambda: told([DoctorCheck("hung", hang), WELL], patience=0.5) == expected)
    finally:
        goes_on.set()


def test_checks_run_at_once():
    both = threading.Barrier(2)

    def meet() -> list[Finding]:
        both.wait(60)
        return [ok("met")]

    assert [text for *_, text in told([DoctorCheck("a", meet), DoctorCheck("b", meet)])] == [
        "met",
        "met",
    ]


def test_secrets_and_control_characters_are_taken_out():
    shown = DoctorCheck(
        "odd", lambda: [Finding(Grade.FAILED, "p@ss and p@ss-word\x1b[2J", "use p@ss")]
    )

    (found,) = examine([shown], without({"p@ss", "p@ss-word", ""}))

    assert found[1] == Finding(Grade.FAILED, "*** and *** [2J", "use ***")
