"""The command ``doctor``: examines an installation and says what to do."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import pyspider_zk
from pyspider_zk.cli.checks import CONFIG_FILE, FINDINGS, Findings
from pyspider_zk.cli.group import DOCTOR
from pyspider_zk.cli.output import console, json_option
from pyspider_zk.cli.target import (
    ITS_QUEUE,
    ITS_ZOOKEEPER,
    ClusterTarget,
    databases_of,
    message_queue_of,
    target,
    with_global_options,
)
from pyspider_zk.config import Settings
from pyspider_zk.doctor.checks import Installation, checks, checks_without_settings, spellings
from pyspider_zk.doctor.examination import Diagnosis, examine, without
from pyspider_zk.doctor.findings import DoctorCheck, Finding, Grade
from pyspider_zk.errors import ConfigError

_STYLES = {Grade.OK: "dim", Grade.WARNING: "yellow", Grade.FAILED: "bold red"}


@with_global_options(
    zookeeper_option=ITS_ZOOKEEPER,
    message_queue=ITS_QUEUE,
    taskdb="database URL",
    projectdb="database URL",
    resultdb="database URL",
    data_path="the data folder, as of `up`",
)
@click.command(DOCTOR)
@json_option
@click.option("--strict", is_flag=True, help="exit with 1 for warnings, too")
@click.option(
    "--lock",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="the lock file that was installed; default: that of the checkout",
)
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, strict: bool, lock: Path | None) -> None:
    """Examine ZooKeeper, Redis, databases, clocks, versions, files, secrets and ports.

    Says for each whether it is well, and what to do if it is not. Changes nothing. Exits with 1
    if something failed.
    """
    it, examined = _examined(ctx, lock or _lock_of_checkout())
    diagnosis = examine(examined, without(spellings(it)))
    if as_json:
        click.echo(json.dumps(as_dict(diagnosis)))
    else:
        console().print(table(diagnosis))
    grades = _grades(diagnosis)
    if grades[Grade.FAILED] or (strict and grades[Grade.WARNING]):
        raise SystemExit(1)


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the form that ``doctor --json`` prints."""
    return {
        **_grades(diagnosis),
        "findings": [
            {"part": part, "grade": each.grade, "text": each.text, "remedy": each.remedy}
            for part, each in diagnosis
        ],
    }


def table(diagnosis: Diagnosis) -> RenderableType:
    """Return the findings as a table, each part's name once."""
    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name in ("part", "grade"):
        rows.add_column(name, no_wrap=True)
    rows.add_column("finding", overflow="fold")
    before = ""
    for part, finding in diagnosis:
        named = Text("" if part == before else part, style="bold")
        rows.add_row(named, _grade(finding), _told(finding))
        before = part
    return Group(rows, Text(_headline(diagnosis), style="bold"))


def _grade(finding: Finding) -> Text:
    return Text(finding.grade.value, style=_STYLES[finding.grade])


def _told(finding: Finding) -> Text:
    told = Text(finding.text, style="dim" if finding.grade is Grade.OK else "")
    return told.append(f"\n→ {finding.remedy}", style="") if finding.remedy else told


def _headline(diagnosis: Diagnosis) -> str:
    grades = _grades(diagnosis)
    return f"{grades['failed']} failed, {grades['warning']} warnings, {grades['ok']} ok"


def _grades(diagnosis: Diagnosis) -> dict[str, int]:
    """Return how many findings have each grade."""
    found = [finding.grade for _, finding in diagnosis]
    return {grade.value: found.count(grade) for grade in Grade}


def _examined(ctx: click.Context, lock: Path | None) -> tuple[Installation, list[DoctorCheck]]:
    """Return what is examined and how; faulty settings leave what needs none."""
    written: Findings = ctx.meta.get(FINDINGS, Findings())
    faults, chosen = written.faults, checks
    try:
        where = target(ctx.obj)
    except ConfigError as error:
        where = ClusterTarget(Settings(), message_queue_of(ctx.obj))
        faults, chosen = [*faults, *error.faults], checks_without_settings
    it = _installation(ctx, where, lock)
    return it, [*([_faulty(faults)] if faults else []), *chosen(it)]


def _faulty(faults: Iterable[str]) -> DoctorCheck:
    """Return a check that finds these faults."""

    def run() -> Iterable[Finding]:
        raise ConfigError(list(faults))

    return DoctorCheck("settings", run)


def _installation(ctx: click.Context, where: ClusterTarget, lock: Path | None) -> Installation:
    name = ctx.meta.get(CONFIG_FILE)
    return Installation(
        settings=where.settings,
        message_queue=where.message_queue,
        databases=databases_of(ctx.obj),
        config=ctx.obj["config"],
        config_file=Path(name) if name and Path(name).is_file() else None,
        data_path=Path(ctx.obj["data_path"]),
        lock=lock,
    )


def _lock_of_checkout() -> Path | None:
    """Return the lock file beside the package; an installed package has none."""
    path = Path(pyspider_zk.__file__).parents[1] / "requirements" / "deploy.txt"
    return path if path.is_file() else None
