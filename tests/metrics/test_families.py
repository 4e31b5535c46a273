"""The declared metrics: named as Prometheus asks for, with few values of each label."""

import re
import runpy
from math import prod
from pathlib import Path

import pytest

from pyspider_zk.cluster.alerts import AlertKind
from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import FAMILIES, Family, MetricKind
from pyspider_zk.queues.names import QueueKind

MOST_SERIES = 30


def test_there_are_metrics_and_no_name_is_used_twice() -> None:
    names = [each.name for each in FAMILIES]
    assert len(names) > 20
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_a_name_tells_kind_and_unit(family: Family) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", family.name)
    assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER)
    assert ("seconds" in family.meaning or "how long" in family.meaning) == (
        family.name.endswith("_seconds")
    )
    assert bool(family.buckets) == (family.kind is MetricKind.HISTOGRAM)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_a_metric_has_few_series(family: Family) -> None:
    assert prod(len(values) for _, values in family.labels) <= MOST_SERIES
    for _, values in family.labels:
        assert len(set(values)) == len(values) > 0


def test_labels_have_the_words_that_the_product_uses() -> None:
    assert set(families.COMPONENTS) == {"scheduler", *ComponentKind}
    assert families.DATABASES == DATABASES
    assert set(families.ALERTS) == set(AlertKind)
    assert set(QueueKind) < set(families.QUEUES)


DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "internals" / "draw_metrics.py"))
PAGE = (DOCS / "how-to" / "monitor.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_that_the_script_writes() -> None:
    assert SCRIPT["page"](PAGE) == PAGE, "run docs/internals/draw_metrics.py"


def test_the_table_has_every_metric_once() -> None:
    for family in FAMILIES:
        assert PAGE.count(f"\n| `{family.full_name}` |") == 1
