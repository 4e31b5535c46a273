"""``doctor`` examines what the options, config.json, the environment or the folder name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.local.services import RedisServer
from tests.cli.conftest import Run, ended, hosts
from tests.support.running_cluster import up

Config = Callable[[str], Path]

NO_HURRY = {
    f"PYSPIDER_ZK_{name}": seconds
    for name, seconds in [("RENEWAL", "10"), ("LEASE", "30"), ("SESSION", "40"), ("BUDGET", "10")]
}
CANARY = "canary-0f3a91-c27d"


def findings(output: str, part: str, grade: str) -> str:
    """Return what was found about a part, as one text."""
    found: dict[str, Any] = json.loads(output)
    chosen = (each for each in found["findings"] if (each["part"], each["grade"]) == (part, grade))
    return "\n".join(f"{each['text']} -> {each['remedy']}" for each in chosen)


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
def test_the_cluster_of_this_folder_is_well(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with up(tmp_path, "--schedulers", "1"):
        monkeypatch.chdir(tmp_path)
        result = run("doctor", "--json", env=NO_HURRY)
        shown = run("doctor", env=NO_HURRY)

    found = json.loads(result.stdout)
    assert found["failed"] == 0, result.stdout
    assert result.exit_code == shown.exit_code == 0
    parts = {each["part"] for each in found["findings"]}
    assert parts == {
        *("settings", "secrets", "files", "packages", "ZooKeeper", "Redis", "cluster"),
        *("taskdb", "projectdb", "resultdb"),
    }
    assert "the web UI at" in findings(result.stdout, "cluster", "warning")
    assert "is closed to strangers" in findings(result.stdout, "cluster", "ok")
    assert f"0 failed, {found['warning']} warnings, {found['ok']} ok" in shown.stdout


@pytest.mark.zk
@pytest.mark.redis
def test_warnings_fail_only_if_that_is_asked_for(
    run: Run, cluster: Settings, redis_server: RedisServer
) -> None:
    where = ("--zookeeper", hosts(cluster), "--message-queue", redis_server.url)
    its = {**NO_HURRY, "PYSPIDER_ZK_SECRET": CANARY}

    result = run("doctor", *where, "--json", env=its)
    strict = run("doctor", *where, "--json", "--strict", env=its)

    assert json.loads(result.stdout)["warning"] > 0
    assert (result.exit_code, strict.exit_code) == (0, 1), result.stdout


def test_faulty_settings_are_findings_and_the_rest_is_examined(run: Run, config: Config) -> None:
    path = config(
        json.dumps(
            {
                "zookeeper": {"hosts": "127.0.0.1:1", "lease": 1, "renewal": 1},
                "webui": {"port": "none"},
                "message_queue": f"redis://:{CANARY}@127.0.0.1:1/0",
            }
        )
    )
    result = run("-c", path, "doctor", "--json")

    assert result.exit_code == 1
    settings = findings(result.stdout, "settings", "failed")
    assert "lease: 1 s must be at least three renewals" in settings
    assert "port" in settings
    assert "Redis at 127.0.0.1:1" in findings(result.stdout, "Redis", "failed")
    assert "no URL is named" in findings(result.stdout, "taskdb", "warning")


def test_no_secret_is_shown_wherever_it_stands(
    run: Run, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = [f"{CANARY}-{number}" for number in range(8)]
    path = config(
        json.dumps(
            {
                "zookeeper": {
                    "hosts": "127.0.0.1:1",
                    "username": "crawl",
                    "password": secrets[0],
                    "secret": secrets[1],
                    "metrics": "127.0.0.1:0",
                    "metrics_token": secrets[6],
                    "alert_webhook": f"https://127.0.0.1:1/{secrets[7]}",
                },
                "webui": {"username": "me", "password": secrets[2]},
                "message_queue": f"redis://:{secrets[3]}@127.0.0.1:1/0",
                "taskdb": f"sqlalchemy+postgresql+taskdb://u:{secrets[4]}@127.0.0.1:1/taskdb",
            }
        )
    )
    path.chmod(0o644)
    monkeypatch.setenv("RESULTDB", f"mysql+resultdb://u:{secrets[5]}@127.0.0.1:1/resultdb")

    result = run("-c", path, "doctor", "--json")
    shown = run("-c", path, "doctor")

    assert result.exit_code == shown.exit_code == 1
    assert CANARY not in result.output + shown.output
    assert "config.json, with secrets in it" in findings(result.stdout, "files", "failed")
    assert "it cannot be used" in findings(result.stdout, "taskdb", "failed")
    assert "it cannot be used" in findings(result.stdout, "resultdb", "failed")


@pytest.mark.parametrize(
    "given",
    [
        {"secret": f'{CANARY}-äöü"\\'},
        {"username": "crawl", "password": f'{CANARY}-äöü"\\'},
        {"metrics": "127.0.0.1:0", "metrics_token": f'{CANARY}-"'},
        {"alert_webhook": f"https://127.0.0.1:1/{CANARY}"},
    ],
    ids=lambda given: [*given][-1],
)
def test_each_secret_setting_makes_a_secret_of_config_json(
    run: Run, config: Config, given: dict[str, str]
) -> None:
    path = config(json.dumps({"zookeeper": {"hosts": "127.0.0.1:1", **given}}))
    path.chmod(0o644)
    result = run("-c", path, "doctor", "--json")
    assert "config.json, with secrets in it" in findings(result.stdout, "files", "failed")
    assert CANARY not in result.output


def test_a_weak_token_of_metrics_is_told(run: Run, config: Config) -> None:
    metrics = {"metrics": "127.0.0.1:0", "metrics_token": "a" * 16}
    path = config(json.dumps({"zookeeper": {"hosts": "127.0.0.1:1", **metrics}}))
    result = run("-c", path, "doctor", "--json")
    assert "metrics_token has less than" in findings(result.stdout, "secrets", "warning")


@pytest.mark.parametrize(
    ("webui", "text"),
    [
        ({"host": "0.0.0.0"}, "whoever reaches the web UI there"),  # noqa: S104
        ({"need_auth": True}, "nobody can log in"),
    ],
)
def test_a_web_ui_that_would_not_start(
    run: Run, config: Config, webui: dict[str, object], text: str
) -> None:
    path = config(json.dumps({"zookeeper": "127.0.0.1:1", "webui": webui}))
    result = run("-c", path, "doctor", "--json")
    assert text in findings(result.stdout, "settings", "failed")


def test_urls_that_are_none_are_findings_without_their_passwords(run: Run) -> None:
    where = ("--zookeeper", "127.0.0.1:1", "--message-queue", f"redis://:{CANARY}@[::1/0")
    taskdb = f"sqlalchemy+postgresql+taskdb://u:{CANARY}@[::1/taskdb"
    result = ended(run("doctor", "--json", *where, "--taskdb", taskdb), 1)
    assert "written correctly" in findings(result.stdout, "Redis", "failed")
    assert findings(result.stdout, "taskdb", "failed")
    assert CANARY not in result.output


def test_packages_are_compared_with_the_lock_file_that_is_named(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("click==0.1 \\\n    --hash=sha256:00\n")
    result = run("doctor", "--zookeeper", "127.0.0.1:1", "--lock", lock, "--json")
    assert "click" in findings(result.stdout, "packages", "warning")


def test_without_a_cluster_it_says_how_to_name_one(run: Run) -> None:
    assert "name its ZooKeeper" in ended(run("doctor"), 3).output
