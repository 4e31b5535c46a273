"""What the units start runs, with their variables and files; without systemd itself."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from pyspider_zk.config import settings_from
from pyspider_zk.errors import Mismatch
from tests.support.connected import looking
from tests.support.processes import PROGRAM, ROOT
from tests.support.secured_servers import authority, tls_redis, tls_zookeeper
from tests.systemd.units import FILES, FOLDER, Unit, unit

pytestmark = [pytest.mark.slow, pytest.mark.zk, pytest.mark.redis]

ETC = "/etc/pyspider-zk"
GIVEN = "a secret of the tests"


@pytest.fixture
def etc(tmp_path: Path) -> Iterator[Path]:
    """Give what stands for /etc/pyspider-zk, with servers that run."""
    folder = tmp_path / "etc"
    for each in (tls := folder / "tls", secrets := folder / "secrets"):
        each.mkdir(parents=True)
    made = authority(tmp_path)
    _join(tls / "client.pem", made.certificate, made.key)
    _join(tls / "scheduler.pem", made.server)
    _join(tls / "ca.pem", made.ca)
    with (
        tls_zookeeper(tmp_path / "zookeeper", made, "need") as zookeeper,
        tls_redis(tmp_path / "redis", made) as (_, redis),
    ):
        _write_secrets(secrets, f"rediss://{redis}/0?ssl_ca_certs={made.ca}", tmp_path)
        config = json.loads((FOLDER / "config.json").read_text().replace(ETC, str(folder)))
        config["zookeeper"]["hosts"] = zookeeper
        (folder / "config.json").write_text(json.dumps(config))
        yield folder


def _join(file: Path, *parts: Path) -> None:
    file.write_bytes(b"".join(part.read_bytes() for part in parts))


def _write_secrets(folder: Path, message_queue: str, data: Path) -> None:
    texts = {
        name: f"sqlite+{name}:///{data}/{name}" for name in ("taskdb", "projectdb", "resultdb")
    }
    texts |= dict.fromkeys(("secret", "zookeeper", "metrics"), GIVEN)
    for name, text in {**texts, "message-queue": message_queue}.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)


def make_users(state: Path) -> None:
    folder = state / "pyspider-zk"
    folder.mkdir(parents=True)
    words = ["user", "set", "ann", "--role", "admin", "--file", str(folder / "users.json")]
    subprocess.run([*PROGRAM, *words], cwd=ROOT, input="a password\n", text=True, check=True)


def environment_of(unit: Unit, etc: Path, state: Path) -> dict[str, str]:
    """Return the variables of a process; the machine's own file says what it is called.

    For its metrics it takes a free port, which it tells in a file.
    """
    assert {os.path.dirname(file) for file in unit.credentials.values()} == {f"{ETC}/secrets"}
    values = {"%d": f"{etc}/secrets", "%S": str(state), "%H": "crawl1", "%i": "1", ETC: str(etc)}
    environment = unit.environment(values)
    host, _, port = environment["PYSPIDER_ZK_METRICS"].partition(":")
    assert port.isdecimal()
    own = {"PYSPIDER_ZK_ADVERTISE": "localhost", "PYSPIDER_ZK_METRICS": f"{host}:0"}
    return environment | own


def start(unit: Unit, etc: Path, state: Path) -> subprocess.Popen[bytes]:
    folder = state / "pyspider-zk"
    command = [word.replace(ETC, str(etc)) for word in unit.command[1:]]
    if {"webui", "renderer"} & {*command}:
        command += ["--port", "0"]
    with (folder / f"{unit.name}.log").open("wb") as log:
        return subprocess.Popen(
            [*PROGRAM, *command],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
            | environment_of(unit, etc, state),
            stdout=log,
            stderr=log,
        )


def statuses(target: Path, ca: Path) -> tuple[int, int]:
    """Return the HTTP statuses of a process's metrics without and with the token, by TLS."""
    (group,) = json.loads(target.read_text(encoding="utf-8"))
    port = group["targets"][0].rpartition(":")[2]
    url = f"https://localhost:{port}/metrics"
    token = {"Authorization": f"Bearer {GIVEN}"}
    stranger, scraper = (
        requests.get(url, headers=headers, verify=str(ca), timeout=60) for headers in ({}, token)
    )
    assert "pyspider_zk" not in stranger.text
    assert "pyspider_zk_build_info" in scraper.text
    return stranger.status_code, scraper.status_code


def test_every_unit_s_process_joins_the_cluster_tells_metrics_and_ends_in_order(
    etc: Path, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    units = [unit(file) for file in FILES]
    state = tmp_path / "state"
    make_users(state)
    scheduler = next(each for each in units if "scheduler" in each.name)
    config = json.loads((etc / "config.json").read_text())["zookeeper"]
    settings = settings_from(config, environment_of(scheduler, etc, state))

    with ExitStack() as stack:
        processes = {each.name: start(each, etc, state) for each in units}
        for process in processes.values():
            stack.callback(process.wait)
            stack.callback(process.kill)
        directory = stack.enter_context(looking(settings))

        def all_joined() -> bool:
            try:
                cluster = directory.read()
            except Mismatch:  # nobody founded it yet
                return False
            return len(cluster.members) == 1 and sum(map(len, cluster.components.values())) == 5

        eventually(all_joined, within=180)
        targets = state / "pyspider-zk/data/metrics"
        eventually(lambda: len(list(targets.glob("*.json"))) == len(units))
        told = [statuses(target, etc / "tls/ca.pem") for target in targets.glob("*.json")]
        assert told == [(401, 200)] * len(units)
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        ends = {name: process.wait(180) for name, process in processes.items()}
    assert ends == dict.fromkeys(processes, 0)
