"""The reference has all that the code has."""

from collections.abc import Iterator
from dataclasses import fields

import click
import pytest
from generator import commands, comparison, exit_codes, http_api, settings

from pyspider_zk.cli.main import cli
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.errors import ClusterError, ConfigError
from tests.docs.pages import ROOT


def every_command(group: click.Group, path: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        yield f"{path}{name}"
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path}{name} ")


def test_every_setting_is_described_and_nothing_else_is() -> None:
    assert list(settings.meanings()) == [field.name for field in fields(Settings)]


def test_every_setting_has_a_row_with_its_default() -> None:
    rows = list(settings.lines())
    assert len(rows) == len(fields(Settings)) + 2
    assert "| `lease` | `4` |" in "\n".join(rows)
    assert "| `tls` | `false` |" in "\n".join(rows)


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_every_setting_that_may_stand_in_a_file_is_named_with_it(name: str) -> None:
    row = f"| `{name}_file` | `{name}` |"
    is_taken = "there is no setting" not in _fault(f"{name}_file")
    assert (row in (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")) is is_taken


def _fault(setting: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        settings_from({setting: "/no/such/file"})
    return str(refusal.value)


def test_every_command_has_a_section() -> None:
    headings = {line[4:].strip() for line in commands.lines() if line.startswith("### ")}
    assert headings == set(every_command(cli))


def test_an_option_has_its_meaning() -> None:
    assert any(line.startswith("| `--watch` | update every second") for line in commands.lines())


def test_no_path_of_this_machine_is_told() -> None:
    assert "site-packages" not in "\n".join(commands.lines())


def test_every_request_and_object_of_the_api_has_a_section() -> None:
    document = http_api.document()
    headings = {line[4:].strip() for line in http_api.lines() if line.startswith("### ")}
    requests = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert headings == requests | set(document["components"]["schemas"])


@pytest.mark.parametrize("error", ClusterError.__subclasses__())
def test_every_exit_code_is_explained(error: type[ClusterError]) -> None:
    told = "\n".join(exit_codes.lines())
    assert f"| {error.exit_code} |" in told or error.exit_code == ClusterError.exit_code


def test_every_figure_of_the_comparison_is_there() -> None:
    rows = [line.split("|") for line in comparison.lines()]
    assert len(rows) > 5
    assert all(cell.strip(" -") for row in rows[2:] for cell in row[2:4])
