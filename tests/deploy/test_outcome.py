"""The judgement of a step: each broken promise is told."""

from dataclasses import replace

from tests.deploy.outcome import StepOutcome

GOOD = StepOutcome("scale", True, 80, 80, 0, 0, crawled_before=9, seconds=1.0, figures={"moved": 3})


def test_a_good_step_has_no_fault() -> None:
    assert list(GOOD.faults()) == []
    assert '"missing":0' in GOOD.as_json()
    assert '"moved":3' in GOOD.as_json()


def test_a_missing_page_is_a_fault() -> None:
    (fault,) = replace(GOOD, missing=2).faults()
    assert "2 pages of 80 are missing" in fault


def test_a_duplicate_is_a_fault_of_a_planned_step_only() -> None:
    (fault,) = replace(GOOD, duplicates=5).faults()
    assert "5 pages were fetched again" in fault
    assert list(replace(GOOD, duplicates=5, planned=False).faults()) == []


def test_a_step_beside_the_crawl_is_a_fault() -> None:
    assert [*replace(GOOD, crawled_before=0).faults(), *replace(GOOD, crawled_before=80).faults()]
