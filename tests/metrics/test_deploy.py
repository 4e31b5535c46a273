"""Alert rules and dashboard: valid, tested, and about metrics that exist."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspider_zk.metrics.families import FAMILIES, PREFIX, MetricKind
from tests.metrics.reading import family_of
from tests.support.needed import skip_without_needed
from tests.support.programs import promtool

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
RULES = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
TESTS = (FOLDER / "alerts_test.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))

OF_SCRAPES = {"instance", "job", "le"}
"""Labels that Prometheus adds, and that of buckets."""


def expressions() -> list[str]:
    """Return what the dashboard asks Prometheus."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


TEXTS = {"rules": RULES, "tests of rules": TESTS, "dashboard": "\n".join(expressions())}


def selectors(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each metric of ours that a text names, with the labels that it asks for."""
    for name, asked in re.findall(rf"\b({PREFIX}[a-z_]+)(\{{[^}}]*\}})?", text):
        yield name, dict(re.findall(r'(\w+)!?="([^"]*)"', asked))


def grouped(text: str) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the labels that an expression is summed by, and the metrics within."""
    for line in re.split(r"\n|(?= by \()", text):
        if found := re.match(r" by \(([^)]*)\)", line):
            names = {name for name, _ in selectors(line)}
            yield {each.strip() for each in found[1].split(",")}, names


def labels_of(name: str) -> dict[str, tuple[str, ...]]:
    family = family_of(name)
    assert family is not None, f"there is no metric {name}"
    is_bucket = family.kind is MetricKind.HISTOGRAM
    assert not is_bucket or name.endswith(("_bucket", "_count", "_sum")), name
    return dict(family.labels)


@pytest.mark.parametrize("where", TEXTS)
def test_every_metric_and_label_that_is_asked_for_exists(where: str) -> None:
    found = list(selectors(TEXTS[where]))
    assert len(found) > 15
    for name, asked in found:
        known = labels_of(name)
        for label, value in asked.items():
            assert label in known or label in OF_SCRAPES, f"{name} has no label {label}"
            assert label in OF_SCRAPES or value in known[label], f"{name}: no {label} is {value}"


@pytest.mark.parametrize("where", ["rules", "dashboard"])
def test_what_is_summed_by_a_label_has_it(where: str) -> None:
    found = [each for each in grouped(TEXTS[where].replace("\n          ", " ")) if each[1]]
    assert len(found) > 5
    for labels, names in found:
        for name in names:
            assert labels <= set(labels_of(name)) | OF_SCRAPES, (labels, name)


def test_every_metric_of_the_cluster_and_of_tasks_is_on_the_dashboard() -> None:
    shown = {
        family.name for name, _ in selectors(TEXTS["dashboard"]) if (family := family_of(name))
    }
    hidden = {family.name for family in FAMILIES} - shown
    assert hidden <= {"assignment_epoch", "assignment_age_seconds", "cluster_census_age_seconds"}


def test_every_rule_is_tested_and_says_what_to_do() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES)
    assert len(alerts) > 10
    assert sorted(alerts) == sorted(re.findall(r'alertname="(\w+)"', TESTS))
    for word in ("expr", "summary", "remedy"):
        assert len(re.findall(rf"\b{word}: ", RULES)) == len(alerts)
    assert len(re.findall(r"severity: (?:critical|warning)}", RULES)) == len(alerts)


def test_panels_do_not_overlap_and_name_the_chosen_data_source() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (at["x"] + column, at["y"] + row) for column in range(at["w"]) for row in range(at["h"])
        }
        assert not taken & cells
        assert max(column for column, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "alerts.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts(command: tuple[str, ...]) -> None:
    done = _promtool(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel_{number}", "expr": expr.replace("$__rate_interval", "1m")}
        for number, expr in enumerate(expressions())
    ]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = _promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def _promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    with skip_without_needed():
        program = promtool()
    command = [program, *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)


def test_a_rule_that_is_broken_is_noticed(tmp_path: Path) -> None:
    """Show that the rules' own tests can fail."""
    broken = RULES.replace('{state="unserved"}) > 0', '{state="unserved"}) > 99', 1)
    assert broken != RULES
    (tmp_path / "alerts.yml").write_text(broken)
    (tmp_path / "alerts_test.yml").write_text(TESTS)
    done = _promtool("test", "rules", str(tmp_path / "alerts_test.yml"))
    assert done.returncode != 0
    assert "PyspiderZkSlotsUnserved" in done.stdout + done.stderr
