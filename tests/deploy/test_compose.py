"""`deploy/compose.yaml`: nothing in it is open, unbounded, or stopped before it has drained."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
(SCRAPING,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
(SCRAPES,) = SCRAPING["dns_sd_configs"]
TOKEN = Path(SCRAPING["authorization"]["credentials_file"])

PROCESSES = {"scheduler", "processor", "fetcher", "result-worker", "renderer", "webui"}
READERS = {
    "authority": set(),
    "zookeeper-secrets": {"zookeeper1", "zookeeper2", "zookeeper3"},
    "redis-secrets": {"redis"},
    "postgresql-secrets": {"postgresql"},
    "prometheus-secrets": {"prometheus"},
    "cluster-secrets": PROCESSES,
    "webui-users": {"webui"},
}
"""Which services mount a volume of secrets, beside the one that makes them."""


def mounts() -> set[tuple[str, str, str]]:
    """Return service, volume and mode of each mount."""
    return {
        (service, volume, mode)
        for service, said in SERVICES.items()
        for volume, _, mode in (f"{each}:rw".split(":")[:3] for each in said.get("volumes", ()))
    }


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_least_rights_and_limits(service: str) -> None:
    said = SERVICES[service]
    assert said["read_only"] is True
    assert said["cap_drop"] == ["ALL"]
    assert said["security_opt"] == ["no-new-privileges:true"]
    assert said["mem_limit"]
    assert said["pids_limit"]
    assert said["logging"]["options"]["max-size"]


def test_secrets_are_mounted_by_their_readers_only_and_to_read() -> None:
    for volume, readers in READERS.items():
        mounted = {(service, mode) for service, name, mode in mounts() if name == volume}
        mode = "rw" if volume == "webui-users" else "ro"  # an administrator adds users
        assert mounted == {("secure", "rw"), *((reader, mode) for reader in readers)}


def test_two_ports_are_published_on_this_machine_only() -> None:
    published = {name: said["ports"] for name, said in SERVICES.items() if "ports" in said}
    assert published == {
        "webui": ["${WEBUI_ADDRESS:-127.0.0.1}:${WEBUI_PORT:-5000}:5000"],
        "prometheus": ["${PROMETHEUS_ADDRESS:-127.0.0.1}:${PROMETHEUS_PORT:-9090}:9090"],
    }


def test_only_who_must_reaches_the_internet() -> None:
    assert COMPOSE["networks"]["cluster"]["internal"] is True
    reached = {name: set(said.get("networks", ())) - {"cluster"} for name, said in SERVICES.items()}
    assert {name: found for name, found in reached.items() if found} == {
        "fetcher": {"outside"},
        "renderer": {"outside"},
        "webui": {"outside"},
        "prometheus": {"monitoring"},
    }


def test_no_setting_depends_on_how_many_schedulers_there_are() -> None:
    assert "PYSPIDER_ZK_AWAIT_MEMBERS" not in SERVICES["scheduler"]["environment"]


@pytest.mark.parametrize("service", ["scheduler", "fetcher"])
def test_what_drains_is_not_killed_before(service: str) -> None:
    said = SERVICES[service]
    assert int(said["stop_grace_period"].removesuffix("s")) > int(
        said["environment"]["PYSPIDER_ZK_DRAIN"]
    )


@pytest.mark.parametrize("service", sorted(PROCESSES))
def test_metrics_are_told_to_who_has_the_token_by_tls(service: str) -> None:
    said = SERVICES[service]["environment"]
    assert said["PYSPIDER_ZK_METRICS"] == f"0.0.0.0:{SCRAPES['port']}"
    assert Path(said["PYSPIDER_ZK_METRICS_TOKEN_FILE"]).name == TOKEN.name
    assert said["PYSPIDER_ZK_XMLRPC_TLS_CERTIFICATE"]
    assert service in SCRAPES["names"]


def test_a_renderer_is_asked_by_the_name_that_its_certificate_has() -> None:
    domain = SERVICES["secure"]["environment"]["DOMAIN"]
    name = SERVICES["renderer"]["environment"]["PYSPIDER_ZK_ADVERTISE"]
    assert name == f"renderer.{domain}"
    for service in ("fetcher", "webui"):
        asked = SERVICES[service]["environment"]["PHANTOMJS_PROXY"]
        assert asked == f"https://{name}:25555"


def waits_for_secrets(service: str) -> bool:
    waits = SERVICES[service]["depends_on"]
    return "secure" in waits or all(map(waits_for_secrets, waits))


@pytest.mark.parametrize("service", sorted(SERVICES.keys() - {"secure"}))
def test_everything_waits_for_its_secrets(service: str) -> None:
    assert waits_for_secrets(service)


def test_the_images_users_are_those_that_the_secrets_are_given_to() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    stages = [
        re.search(r" AS (\S+).*^USER (\d+)", each, re.S | re.M) for each in dockerfile.split("FROM")
    ]
    given = SERVICES["secure"]["environment"]
    assert {stage[1]: stage[2] for stage in stages if stage} == {
        "zookeeper": given["ZOOKEEPER_GROUP"],
        "redis": given["REDIS_GROUP"],
        "postgresql": given["POSTGRESQL_GROUP"],
        "prometheus": given["PROMETHEUS_GROUP"],
        "pyspider-zk": given["CLUSTER_GROUP"],
        "renderer": given["CLUSTER_GROUP"],
    }
