"""The units for systemd: systemd takes them, they are hardened, and what they start is ours."""

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import click
import pytest

from pyspider_zk.cli.main import cli
from pyspider_zk.config import settings_from
from pyspider_zk.errors import ConfigError, Mismatch, MissingService
from pyspider_zk.secret_files import URL_VARIABLES
from tests.support import programs
from tests.support.needed import skip_without_needed
from tests.systemd.units import COMMON, FILES, FOLDER, LISTS, Unit, unit

UNITS = [unit(file) for file in FILES]
NAMES = [each.name for each in UNITS]
EXPOSURE = 12
"""Tenths: what systemd finds a service of ours exposed to; it needs the network, for one."""

OF_BROWSERS = 22
"""The same, of one with a browser, which makes a sandbox of its own."""

SYSTEM_UNITS = Path("/usr/lib/systemd/system")
SPECIFIERS = {"%d": "/run/credentials/x", "%S": "/var/lib", "%H": "crawl1", "%i": "1"}
each_unit = pytest.mark.parametrize("unit", UNITS, ids=NAMES)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the root of a machine that has the units and the program, and systemd's own units."""
    root = tmp_path_factory.mktemp("machine")
    shutil.copytree(FOLDER, root / "etc/systemd/system")
    with skip_without_needed():
        programs.systemd_analyze()
    shutil.copytree(SYSTEM_UNITS, root / "usr/lib/systemd/system", symlinks=True)
    (root / "opt/pyspider-zk/bin").mkdir(parents=True)
    (root / "opt/pyspider-zk/bin/pyspider-zk").touch(mode=0o755)
    return root


def analyze(machine: Path, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [programs.systemd_analyze(), verb, f"--root={machine}", "--no-pager", *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def instance(name: str) -> str:
    return name.replace("@.", "@1.")


def verified(machine: Path) -> tuple[int, str]:
    names = [*map(instance, NAMES), "pyspider-zk.target"]
    done = analyze(machine, "verify", "--man=no", *names)
    return done.returncode, done.stdout


def test_systemd_finds_no_fault(machine: Path) -> None:
    assert verified(machine) == (0, "")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pyspider-zk-.service.d/common.conf", "NoNewPrivileges", "NoNewPriviliges"),
        ("pyspider-zk-.service.d/common.conf", "@system-service", "@all-that-is-good"),
        ("pyspider-zk-fetcher@.service", "/opt/pyspider-zk/bin/", "/opt/nothing/bin/"),
        ("pyspider-zk-scheduler@.service", "[Service]", "[Service]\nTimeoutStopSec=a while"),
    ],
)
def test_systemd_finds_faults(machine: Path, tmp_path: Path, file: str, old: str, new: str) -> None:
    spoilt = tmp_path / "machine"
    shutil.copytree(machine, spoilt, symlinks=True)
    place = spoilt / "etc/systemd/system" / file
    text = place.read_text(encoding="utf-8")
    assert old in text
    place.write_text(text.replace(old, new), encoding="utf-8")
    assert verified(spoilt) != (0, "")


def exposed(machine: Path, name: str) -> tuple[int, str]:
    limit = OF_BROWSERS if "renderer" in name else EXPOSURE
    words = ["--offline=true", f"--threshold={limit}", instance(name)]
    done = analyze(machine, "security", *words)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_what_a_service_is_exposed_to_is_little(machine: Path, name: str) -> None:
    code, said = exposed(machine, name)
    assert code == 0, said


def test_a_service_without_what_all_have_in_common_is_exposed(
    machine: Path, tmp_path: Path
) -> None:
    spoilt = tmp_path / "machine"
    shutil.copytree(machine, spoilt, symlinks=True)
    shutil.rmtree(spoilt / "etc/systemd/system" / COMMON.parent.name)
    assert exposed(spoilt, NAMES[0])[0] != 0


@each_unit
def test_a_command_line_is_one_of_ours(unit: Unit) -> None:
    program, option, config, name, *words = unit.command
    assert (program, option) == ("/opt/pyspider-zk/bin/pyspider-zk", "-c")
    assert config == "/etc/pyspider-zk/config.json"
    command = cli.commands[name]
    command.make_context(name, words, parent=click.Context(cli))


def test_there_is_a_unit_for_each_component() -> None:
    workers = {"scheduler", "processor", "fetcher", "result-worker", "renderer", "webui"}
    assert {unit.command[3] for unit in UNITS} == workers


@each_unit
def test_variables_are_settings_and_the_files_of_secrets_are_credentials(unit: Unit) -> None:
    environment = unit.environment(SPECIFIERS)
    secrets = {name: each for name, each in environment.items() if name.endswith("_FILE")}
    files = {f"{SPECIFIERS['%d']}/{name}" for name in unit.credentials}
    assert set(secrets.values()) == files
    assert {name.removesuffix("_FILE") for name in secrets} >= {"TASKDB", "AMQP_URL"}

    urls = {f"{name}_FILE" for name in URL_VARIABLES}
    others = set(environment) - urls - {"PYTHONUNBUFFERED"}
    assert {name for name in others if not name.startswith("PYSPIDER_ZK_")} == set()


@each_unit
def test_the_example_and_the_variables_make_settings_without_a_fault(
    unit: Unit, tmp_path: Path
) -> None:
    for name in unit.credentials:
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text("a secret of the tests")
    environment = unit.environment(SPECIFIERS | {"%d": str(tmp_path)})
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    settings = settings_from(config["zookeeper"], environment)
    assert settings.secret
    assert settings.password
    assert settings.tls
    assert settings.drain < unit.stop_seconds


def test_metrics_have_a_port_of_their_own_whatever_the_instance() -> None:
    told = [
        unit.environment(SPECIFIERS | {"%i": str(number)})["PYSPIDER_ZK_METRICS"]
        for unit in UNITS
        for number in range(1, 100)
        if "@" in unit.name or number == 1
    ]
    assert len(set(told)) == len(told)
    ports = [int(each.removeprefix("0.0.0.0:")) for each in told]
    assert min(ports) > 1023
    assert max(ports) < 32768  # those above are given to whoever asks for a free one


@each_unit
def test_nothing_is_said_twice(unit: Unit) -> None:
    """What all have in common would win, whatever a unit of its own says."""
    twice = {key for key, values in unit.service.items() if len(values) > 1}
    assert twice <= {"Environment", "LoadCredential", *LISTS}


def test_a_renderer_is_told_to_end_before_its_browser() -> None:
    (renderer,) = [unit for unit in UNITS if "renderer" in unit.name]
    assert renderer.service["KillMode"] == ["mixed"]


def test_the_folders_of_secrets_are_closed() -> None:
    lines = (FOLDER / "pyspider-zk.tmpfiles.conf").read_text(encoding="utf-8").splitlines()
    folders = {path: (mode, owner) for _, path, mode, owner, *_ in map(str.split, lines[1:])}
    secrets = {os.path.dirname(file) for unit in UNITS for file in unit.credentials.values()}
    assert {folders[each] for each in secrets} == {("0700", "root")}
    assert {int(mode, 8) & stat.S_IRWXO for mode, _ in folders.values()} == {0}


def test_the_user_is_the_one_that_is_made() -> None:
    made = (FOLDER / "pyspider-zk.sysusers.conf").read_text(encoding="utf-8")
    assert {unit.service["User"][0] for unit in UNITS} == set(re.findall(r"^u (\S+)", made, re.M))


def test_there_is_no_restart_where_it_cannot_help() -> None:
    hopeless = {error.exit_code for error in (ConfigError, Mismatch, MissingService)}
    codes = [set(map(int, unit.service["RestartPreventExitStatus"][0].split())) for unit in UNITS]
    assert codes == [hopeless] * len(UNITS)
