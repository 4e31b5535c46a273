"""Plan of an embedded cluster: the commands of its processes.

Pure: nothing here starts, reads or writes anything.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pyspider_zk.config import SECRET_FILE_VARIABLE, Settings
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.listening import LOOPBACK
from pyspider_zk.local.folder import CommonAddresses, with_login, zookeeper_environ
from pyspider_zk.metrics.targets import TARGETS, on_free_port
from pyspider_zk.secret_files import read_cluster_secret

# Without -P, files of the current folder would be taken for modules.
PROGRAM = (sys.executable, "-P", "-m", "pyspider_zk.cli.main")
NAME_VARIABLE = "PYSPIDER_ZK_NAME"
METRICS_VARIABLE = "PYSPIDER_ZK_METRICS"
SCHEDULER_NAME = "up-{number}"
URL_VARIABLES = {
    "taskdb": "TASKDB",
    "projectdb": "PROJECTDB",
    "resultdb": "RESULTDB",
    "message_queue": "AMQP_URL",
}
"""pyspider's environment variables for URLs with passwords; arguments are visible to all users."""
RENDERER_VARIABLE = "PHANTOMJS_PROXY"


@dataclass(frozen=True)
class ProcessPlan:
    """Plan of what to start; a service with an address is used, not started.

    Attributes:
        folder: where data, logs and up.json go.
        schedulers: how many schedulers, until ``pyspider-zk scale`` says otherwise.
        fetchers, processors: how many.
        renderers: how many, which the fetchers share.
        zookeeper: addresses of a ZooKeeper that runs, with its root; None: start one.
        message_queue: URL of a Redis that runs; None: start one.
        taskdb, projectdb, resultdb: URLs of databases; None: files in the folder.
        webui_port: where the web UI listens; None: pyspider's 5000, or any if that is taken.
        config: a config.json for all processes.
        settings: what connections of `up` itself are set to, but for hosts and root.
        options: global options of all processes.
        environ: variables of all processes.
    """

    folder: Path = Path("data")
    schedulers: int = 3
    fetchers: int = 1
    processors: int = 2
    renderers: int = 0
    zookeeper: str | None = None
    message_queue: str | None = field(default=None, repr=False)
    taskdb: str | None = field(default=None, repr=False)
    projectdb: str | None = field(default=None, repr=False)
    resultdb: str | None = field(default=None, repr=False)
    webui_port: int | None = None
    config: Path | None = None
    settings: Settings = field(default_factory=Settings)
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secret_file(self) -> Path:
        """Path of the secret that is created."""
        return self.folder / "secret"

    def password_file(self, server: str) -> Path:
        """Path of the password that is created for a server."""
        return self.folder / f"{server}.password"

    @property
    def targets(self) -> Path | None:
        """The folder of the addresses of metrics; None: nobody serves any."""
        return self.folder / TARGETS if self.settings.metrics else None

    @property
    def logs(self) -> Path:
        """The folder of the logs."""
        return self.folder / "logs"


@dataclass(frozen=True, kw_only=True)
class Addresses(CommonAddresses):
    """Addresses of the parts of a running cluster.

    Attributes:
        webui_port: the web UI's port on loopback.
        renderer_ports: those of the renderers.
    """

    webui_port: int
    renderer_ports: tuple[int, ...] = ()

    def settings(self, plan: ProcessPlan) -> Settings:
        """Return settings for programs that use this cluster; reads the secrets' files.

        Raises:
            ConfigError: a file is unusable.
        """
        hosts, _, root = self.zookeeper.partition("/")
        settings = replace(plan.settings, hosts=hosts, root=f"/{root}")
        settings = with_login(settings, self.zookeeper_password_file)
        if not self.secret_file:
            return settings
        return replace(settings, secret=read_cluster_secret(Path(self.secret_file)))

    @property
    def webui(self) -> str:
        """URL of the web UI."""
        return f"http://{LOOPBACK}:{self.webui_port}/"


@dataclass(frozen=True)
class Command:
    """One process to run.

    Attributes:
        name: unique in the cluster; its log is ``<name>.log``.
        line: program and arguments.
        environ: variables in addition to our environment.
    """

    name: str
    line: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


def database_files(plan: ProcessPlan) -> dict[str, Path]:
    """Return the sqlite file of each database that the plan gives no URL for."""
    folder = plan.folder.resolve()
    missing = [kind for kind in DATABASES if getattr(plan, kind) is None]
    return {kind: folder / f"{kind.removesuffix('db')}.db" for kind in missing}


def sqlite_url(kind: str, file: Path) -> str:
    """Return pyspider's URL for a database of a kind (``taskdb``, ...) in an sqlite file."""
    return f"sqlite+{kind}:///{file}"


def database_urls(plan: ProcessPlan) -> dict[str, str]:
    """Return the URL of each database, by kind."""
    made = {kind: sqlite_url(kind, file) for kind, file in database_files(plan).items()}
    return {kind: made.get(kind) or getattr(plan, kind) for kind in DATABASES}


def scheduler_command(plan: ProcessPlan, addresses: Addresses, number: int) -> Command:
    """Return the command of a scheduler; its name keeps its member number across restarts."""
    name = SCHEDULER_NAME.format(number=number)
    line = ("scheduler", "--xmlrpc-host", LOOPBACK, "--xmlrpc-port", "0")
    environ = {NAME_VARIABLE: name, **_secret(addresses)}
    return _command(plan, addresses, f"scheduler-{name}", line, environ)


def component_commands(plan: ProcessPlan, addresses: Addresses) -> list[Command]:
    """Return the commands of everything except schedulers."""
    command, secret = partial(_command, plan, addresses), _secret(addresses)
    local = ("--host", LOOPBACK, "--port")
    return [
        *(
            command(f"fetcher-{n}", _fetcher_line(n), secret | _renderer(addresses, n))
            for n in range(plan.fetchers)
        ),
        *(command(f"processor-{n}", ("processor",)) for n in range(plan.processors)),
        *(
            command(f"renderer-{n}", ("renderer", *local, str(port)), secret)
            for n, port in enumerate(addresses.renderer_ports)
        ),
        command("result-worker", ("result-worker",)),
        command(
            "webui",
            ("webui", *local, str(addresses.webui_port)),
            secret | _renderer(addresses, 0),
        ),
    ]


def _command(
    plan: ProcessPlan,
    addresses: Addresses,
    name: str,
    line: tuple[str, ...],
    more: Mapping[str, str] = MappingProxyType({}),
) -> Command:
    """Return the command of a process, which knows where all is and has a port for its metrics."""
    config = () if plan.config is None else ("--config", str(plan.config.resolve()))
    folder = ("--data-path", str(plan.folder.resolve()))
    environ = {variable: getattr(addresses, url) for url, variable in URL_VARIABLES.items()}
    environ |= zookeeper_environ(addresses.zookeeper_password_file)
    if plan.settings.metrics:
        environ[METRICS_VARIABLE] = on_free_port(plan.settings.metrics)
    where = (*PROGRAM, *config, "--zookeeper", addresses.zookeeper, *folder, *plan.options)
    return Command(name, (*where, *line), {**plan.environ, **environ, **more})


def _renderer(addresses: Addresses, number: int) -> dict[str, str]:
    """Return the variable with the renderer of a fetcher, or of the web UI's; none without one."""
    ports = addresses.renderer_ports
    return {RENDERER_VARIABLE: f"{LOOPBACK}:{ports[number % len(ports)]}"} if ports else {}


def _fetcher_line(number: int) -> tuple[str, ...]:
    """Return the arguments of a fetcher; only one can serve XML-RPC at the configured port."""
    return ("fetcher", "--xmlrpc-port", "0") if number else ("fetcher",)


def _secret(addresses: Addresses) -> dict[str, str]:
    """Return the variables with the secret, for processes that are called, or call others."""
    return {SECRET_FILE_VARIABLE: addresses.secret_file} if addresses.secret_file else {}
