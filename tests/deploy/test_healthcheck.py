"""`deploy/healthcheck`: a container is healthy if its process says that it does its work."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from pyspider_zk.metrics.families import Exposition
from pyspider_zk.metrics.health import Health
from pyspider_zk.metrics.server import MetricsServer, ScrapeAdmission

HEALTHCHECK = Path(__file__).resolve().parents[2] / "deploy" / "healthcheck"
LOOPBACK = "127.0.0.1"


def server_tls() -> ssl.SSLContext:
    """Return what a scheduler serves TLS with: a certificate for the name that others use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("scheduler1.crawl.test").configure_cert(context)
    return context


@pytest.fixture(params=["plain", "TLS"])
def environ(request: pytest.FixtureRequest, works: dict[str, bool]) -> Iterator[dict[str, str]]:
    """Serve the health of a component, and give its container's environment."""
    tls = server_tls() if request.param == "TLS" else None
    health = Health(lambda: 0.0, 30, lambda: works)
    server = MetricsServer(Exposition([]), health, ScrapeAdmission("", insecure=False), tls)
    port = server.start(LOOPBACK, 0)
    certificate = {"PYSPIDER_ZK_XMLRPC_TLS_CERTIFICATE": "scheduler.pem"} if tls else {}
    yield {"PYSPIDER_ZK_METRICS": f"{LOOPBACK}:{port}", **certificate}
    server.stop()


@pytest.fixture
def works() -> dict[str, bool]:
    return {"lease": True}


def checked(environ: dict[str, str]) -> tuple[int, str]:
    """Return the exit code of the check, and what it says."""
    environ = {"PATH": os.environ["PATH"], **environ}
    done = subprocess.run([HEALTHCHECK], env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


def test_who_does_its_work_is_healthy(environ: dict[str, str]) -> None:
    assert checked(environ) == (0, "")


def test_it_is_asked_past_the_proxy_of_the_container(environ: dict[str, str]) -> None:
    proxies = dict.fromkeys(["http_proxy", "https_proxy"], f"http://{LOOPBACK}:1")
    assert checked({**environ, **proxies}) == (0, "")


def test_who_does_not_is_not_and_the_reason_is_told(
    environ: dict[str, str], works: dict[str, bool]
) -> None:
    works["lease"] = False
    assert checked(environ) == (1, "lease")


def test_who_does_not_answer_is_not() -> None:
    code, told = checked({"PYSPIDER_ZK_METRICS": f"{LOOPBACK}:1"})
    assert code == 1
    assert "refused" in told


def test_who_serves_no_health_is_told_how() -> None:
    code, told = checked({})
    assert code == 1
    assert "PYSPIDER_ZK_METRICS" in told
