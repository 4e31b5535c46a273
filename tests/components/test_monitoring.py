"""Metrics and health are served as the settings say."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from pyspider_zk import __version__
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.metrics import families
from pyspider_zk.metrics.health import Health
from tests.metrics.reading import get, parsed, value
from tests.support.ports import own_port

TOKEN = "a token of the tests"  # noqa: S105


def monitoring(parts: Mapping[str, bool] | None = None) -> Monitoring:
    return Monitoring("fetcher", Health(lambda: 1.5, 30, lambda: parts or {"message_queue": True}))


def port_in(folder: Path) -> int:
    (file,) = (folder / "metrics").glob("*.json")
    return int(json.loads(file.read_text())[0]["targets"][0].rpartition(":")[2])


def test_without_the_setting_nothing_is_served(tmp_path: Path) -> None:
    with monitored(Settings(), monitoring(), tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_every_component_tells_its_version_its_parts_and_its_loop(tmp_path: Path) -> None:
    with monitored(Settings(metrics="127.0.0.1:0"), monitoring(), tmp_path):
        found = parsed(get(port_in(tmp_path), "/metrics").text)
    assert value(found, families.BUILD, component="fetcher", version=__version__) == 1
    assert value(found, families.READY, part="message_queue") == 1
    assert value(found, families.LOOP_AGE) == 1.5


def test_a_part_that_is_away_is_told_everywhere(tmp_path: Path) -> None:
    broken = monitoring({"message_queue": False, "taskdb": True})
    with monitored(Settings(metrics="127.0.0.1:0"), broken, tmp_path):
        port = port_in(tmp_path)
        assert get(port, "/readyz")[:2] == (503, "message_queue\n")
        found = parsed(get(port, "/metrics").text)
    assert value(found, families.READY, part="message_queue") == 0
    assert value(found, families.READY, part="taskdb") == 1


def test_the_file_of_a_free_port_goes_with_it(tmp_path: Path) -> None:
    with monitored(Settings(metrics="localhost:0"), monitoring(), tmp_path):
        assert get(port_in(tmp_path), "/healthz").status == 200
    assert list((tmp_path / "metrics").iterdir()) == []


def test_a_port_that_was_chosen_is_announced_nowhere(tmp_path: Path) -> None:
    port = own_port()
    with monitored(Settings(metrics=f"127.0.0.1:{port}"), monitoring(), tmp_path):
        assert get(port, "/healthz").status == 200
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_and_the_port_is_free_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "metrics").write_text("a file where a folder belongs")
    settings = Settings(metrics="127.0.0.1:0")
    with (
        pytest.raises(ClusterError, match="--data-path"),
        monitored(settings, monitoring(), tmp_path),
    ):
        pytest.fail("nobody would find it")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_other_machines_need_a_token(address: str) -> None:
    settings = Settings(metrics=address)
    with (
        pytest.raises(ConfigError, match="metrics_token_file"),
        monitored(settings, monitoring(), None),
    ):
        pytest.fail("it is open")


def test_with_a_token_other_machines_may_read(tmp_path: Path) -> None:
    settings = Settings(metrics="0.0.0.0:0", metrics_token=TOKEN)
    with monitored(settings, monitoring(), tmp_path):
        port = port_in(tmp_path)
        assert get(port, "/metrics").status == 401
        assert get(port, "/metrics", Authorization=f"Bearer {TOKEN}").status == 200


def test_insecure_opens_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(metrics="0.0.0.0:0", insecure=True)
    with monitored(settings, monitoring(), tmp_path):
        assert get(port_in(tmp_path), "/metrics", Host="crawl.example").status == 200
    assert "insecure" in caplog.text


@pytest.fixture
def tls(tmp_path: Path) -> tuple[Settings, ssl.SSLContext]:
    """Give settings with a certificate, and what trusts it."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    theirs = ssl.create_default_context()
    authority.configure_trust(theirs)
    files = {"xmlrpc_tls_certificate": str(certificate), "xmlrpc_tls_key": str(key)}
    return replace(Settings(metrics="127.0.0.1:0"), **files), theirs


def test_the_certificate_of_xmlrpc_is_shown_here_too(
    tmp_path: Path, tls: tuple[Settings, ssl.SSLContext]
) -> None:
    settings, theirs = tls
    with monitored(settings, monitoring(), tmp_path):
        assert get(port_in(tmp_path), "/readyz", tls=theirs).status == 200
        assert get(port_in(tmp_path), "/readyz").status == 400


def test_who_only_calls_by_tls_serves_metrics_without(tmp_path: Path) -> None:
    settings = Settings(metrics="127.0.0.1:0", xmlrpc_tls=True)
    with monitored(settings, monitoring(), tmp_path):
        assert get(port_in(tmp_path), "/readyz").status == 200
