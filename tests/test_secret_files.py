"""Secrets that stand in files and URLs."""

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.secret_files import URL_VARIABLES, take_from_files, without_password


def test_a_file_takes_the_place_of_a_variable(tmp_path):
    (tmp_path / "url").write_text("redis://:HIDDEN@host/0\n", encoding="utf-8")
    environ = {"AMQP_URL_FILE": str(tmp_path / "url"), "TASKDB": "t", "OTHER_FILE": "kept"}

    take_from_files(environ, URL_VARIABLES)

    assert environ == {"AMQP_URL": "redis://:HIDDEN@host/0", "TASKDB": "t", "OTHER_FILE": "kept"}


def test_every_file_at_fault_is_named_and_none_is_quoted(tmp_path):
    (tmp_path / "two").write_text("HIDDEN\nHIDDEN\n", encoding="utf-8")
    environ = {
        "AMQP_URL_FILE": str(tmp_path / "two"),
        "TASKDB_FILE": "/no/such/file",
        "RESULTDB_FILE": str(tmp_path / "two"),
        "RESULTDB": "mysql://HIDDEN",
    }
    with pytest.raises(ConfigError) as refused:
        take_from_files(environ, URL_VARIABLES)

    told = "\n".join(refused.value.faults)
    for name in ("AMQP_URL_FILE", "/no/such/file", "give RESULTDB or RESULTDB_FILE"):
        assert name in told
    assert "HIDDEN" not in told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:HIDDEN@host:6379/0", "redis://@host:6379/0"),
        ("redis://user:HID/D?E#N@host/0", "redis://user@host/0"),
        ("redis://user:HID?x=y@DEN@host/0", "redis://user@host/0"),
        (
            "rediss://u:HIDDEN@h/1?ssl_ca_certs=/ca&password=HIDDEN",
            "rediss://u@h/1?ssl_ca_certs=/ca",
        ),
        ("sqlite+taskdb:////x:y/a@b/task.db", "sqlite+taskdb:////x:y/a@b/task.db"),
        ("127.0.0.1:2181/root", "127.0.0.1:2181/root"),
    ],
)
def test_a_url_is_told_without_its_password(url, told):
    assert without_password(url) == told
