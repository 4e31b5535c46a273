"""Wiring of a process: its settings and its message queue.

pyspider's constructors have no argument for either. Both come from the click context instead, so
``pyspider-zk scheduler`` and ``pyspider -c config.json scheduler --scheduler-cls ...``
are wired alike. Without a context, only the environment and the defaults apply.

The context belongs to a thread: read it in the constructor, not in a thread that you start.
pyspider's ``all`` pushes one in each of its subprocesses and threads.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pyspider_zk.cluster.meta import ensure_meta
from pyspider_zk.cluster.records import Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.components.watchdog import TaskMark
from pyspider_zk.config import ENV_PREFIX, SECTION, Settings, settings_from
from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.metrics.targets import on_free_port
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.zookeeper.connection import Connection

# Names under which ``ctx.obj`` has what pyspider's options have not.
ZOOKEEPER_OPTION = "zookeeper_option"  # not zookeeper: click takes that section for the default
INSECURE_OPTION = "insecure_option"
TOGETHER_OPTION = "together_option"  # whether one command runs several components
TASK_MARK = "task_mark"  # the mark that the watchdog of this process reads
ALONE_IN_PROCESS = "alone_in_process"  # whether this process is the command's alone, and may fork

QUEUE_LIMIT = 100  # pyspider's default of --queue-maxsize

LINKS = 20
"""Tasks in one message of pyspider's, which has the links of a page; here each is a message."""


def current_settings() -> Settings:
    """Return the settings of this process.

    Raises:
        ConfigError: with every fault found.
    """
    options = _options()
    config = options.get("config") or {}
    settings = settings_from(config.get(SECTION), os.environ, options.get(ZOOKEEPER_OPTION))
    if is_one_of_several():
        settings = replace(settings, metrics=on_free_port(settings.metrics))
    return replace(settings, insecure=True) if options.get(INSECURE_OPTION) else settings


def is_one_of_several() -> bool:
    """Return whether one command runs several components, which share their settings."""
    return bool(_options().get(TOGETHER_OPTION))


def names_zookeeper(options: Mapping[str, Any]) -> bool:
    """Return whether the option, the environment or config.json names a ZooKeeper."""
    section = (options.get("config") or {}).get(SECTION)
    in_section = isinstance(section, str) or (isinstance(section, Mapping) and "hosts" in section)
    return bool(options.get(ZOOKEEPER_OPTION) or in_section or os.environ.get(f"{ENV_PREFIX}HOSTS"))


def current_limits() -> dict[str, float]:
    """Return the highest ``rate`` and ``burst`` that config.json's section "webui" allows."""
    webui = (_options().get("config") or {}).get("webui", {})
    limits = {name: webui.get(f"max_{name}") for name in ("rate", "burst")}
    return {name: float(limit) for name, limit in limits.items() if limit is not None}


def current_message_queue() -> str | None:
    """Return the URL of the message queue; None for pyspider's built-in one."""
    return _options().get("message_queue") or os.environ.get("AMQP_URL")


def current_queues(settings: Settings) -> Queues:
    """Return the slot queues behind the message queue of this process; no I/O yet.

    Raises:
        ConfigError: there is no message queue, or a cluster cannot use it.
    """
    limit = _options().get("queue_maxsize", os.environ.get("QUEUE_MAXSIZE", QUEUE_LIMIT))
    return connect(current_message_queue(), LINKS * int(limit), settings.slots)


def current_data_path() -> Path | None:
    """Return pyspider's folder of data; None without a command."""
    path = _options().get("data_path")
    return Path(path) if path else None


def current_task_mark() -> TaskMark:
    """Return the mark of the task at hand; without a watchdog nobody reads it."""
    return _options().get(TASK_MARK) or TaskMark()


def current_projectdb() -> Any:
    """Return the project database of this process's options; None without a command.

    pyspider connects lazily, and passes it to all components but the result worker.
    """
    options = _options()
    return getattr(options, "projectdb", None) if "projectdb" in options else None


def check_services() -> None:
    """Check that ZooKeeper and the message queue answer; blocks for some seconds at most.

    Raises:
        ConfigError: settings that cannot work.
        Unavailable: one of them does not answer.
        Mismatch: the cluster was created with other values.
    """
    settings = current_settings()
    with ExitStack() as opened:
        queues = opened.enter_context(closing(current_queues(settings)))
        queues.inbox.lengths()
        connection = Connection(settings)
        opened.callback(connection.stop)
        connection.start()
        ensure_meta(connection, Tree(settings.root), Meta(settings.slots))


def check_login(url: str | None) -> None:
    """Check that the message queue accepts our login; an outage is tolerated.

    Blocks for some seconds at most.

    Raises:
        ConfigError: there is no message queue, or a cluster cannot use it.
        Refused: it does not accept it.
    """
    with closing(connect(url, 0, 1)) as queues:
        try:
            queues.inbox.lengths()
        except Refused:
            raise
        except Unavailable:
            return


def is_given(option: str) -> bool:
    """Return whether the current command was given this option of its own."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source not in (None, ParameterSource.DEFAULT)


def _options() -> Mapping[str, Any]:
    """Return pyspider's global options; empty outside of a command."""
    context = click.get_current_context(silent=True)
    options = None if context is None else context.obj
    return options if isinstance(options, Mapping) else {}
