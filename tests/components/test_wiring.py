"""The classes of the cluster find their settings wherever they are made."""

from typing import Any

import click
import pytest

from pyspider_zk.components.wiring import (
    INSECURE_OPTION,
    ZOOKEEPER_OPTION,
    current_limits,
    current_message_queue,
    current_queues,
    current_settings,
)
from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AMQP_URL", "QUEUE_MAXSIZE", "PYSPIDER_ZK_HOSTS"):
        monkeypatch.delenv(name, raising=False)


def inside(obj: dict[str, Any]) -> click.Context:
    return click.Context(click.Command("scheduler"), parent=click.Context(click.Group(), obj=obj))


def test_outside_of_a_command_there_are_environment_and_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_ROOT", "/elsewhere")
    monkeypatch.setenv("AMQP_URL", "redis://queue/1")
    assert current_settings() == Settings(root="/elsewhere")
    assert current_message_queue() == "redis://queue/1"


def test_the_section_of_config_json_is_found() -> None:
    with inside({"config": {"zookeeper": {"hosts": "zk:1", "slots": 8}}}):
        assert current_settings() == Settings(hosts="zk:1", slots=8)


def test_the_option_wins_over_environment_and_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_HOSTS", "zk:2")
    with inside({"config": {"zookeeper": "zk:1"}, ZOOKEEPER_OPTION: "zk:3/root"}):
        assert current_settings() == Settings(hosts="zk:3", root="/root")


def test_the_option_that_lets_xmlrpc_stand_open_is_a_setting_then() -> None:
    with inside({"config": {}, INSECURE_OPTION: True}):
        assert current_settings().insecure
    with inside({"config": {}}):
        assert not current_settings().insecure


def test_the_web_ui_s_limits_are_those_of_its_section() -> None:
    with inside({"config": {"webui": {"max_rate": 2, "max_burst": 7.5}}}):
        assert current_limits() == {"rate": 2.0, "burst": 7.5}
    with inside({"config": {}}):
        assert current_limits() == {}
    assert current_limits() == {}


def test_pyspider_s_built_in_queue_is_refused() -> None:
    with inside({"config": {}, "message_queue": None}), pytest.raises(ConfigError, match="redis:"):
        current_queues(Settings())


def test_queues_are_made_without_any_connection() -> None:
    with inside({"config": {}, "message_queue": "redis://nowhere/0", "queue_maxsize": 7}):
        current_queues(Settings()).close()
