"""The composed cluster: compose's commands, and its containers on the engine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker import DockerClient
from docker.models.containers import Container
from docker.models.networks import Network

from pyspider_zk.errors import MissingService
from tests.deploy.images import ROOT

PROJECT = "pyspider-zk-deploy-test"
DOMAIN = "deploy-test.internal"
NETWORKS = {"cluster": DOMAIN, "outside": f"{PROJECT}_outside"}
CHECKOUT = "/srv/checkout"
PASSWORDS = "/secure/authority"
"""Where `secure` keeps passwords for the administrator."""

NO_COMPOSE = "docker compose is missing; Debian: apt install docker-compose"

SCHEDULER, FETCHER = "scheduler", "fetcher"
COMPONENTS = ("processor", FETCHER, "result-worker", "renderer", "webui")
PROCESSES = (SCHEDULER, *COMPONENTS)
SERVERS = ("zookeeper1", "zookeeper2", "zookeeper3", "redis", "postgresql")
PROMETHEUS = "prometheus"
TASK_LINES = ("new task ", "select ", "task done ", " process ", "] [200] ", "result ")
"""What lines about single tasks hold."""


class ComposedCluster:
    """The cluster of ``deploy/compose.yaml``, under a name of its own; for one thread.

    Args:
        engine: where it runs.
        url: of that engine, for compose.
        tag: of the images; changes with an upgrade.
    """

    def __init__(self, engine: DockerClient, url: str, tag: str) -> None:
        self.engine = engine
        self.tag = tag
        self._servers_tag = tag
        self._url = url
        self._compose = compose_command()

    def run(self, *words: str, program: tuple[str, ...] = ()) -> None:
        """Run a command of compose, or a program that takes compose's command as arguments.

        Raises:
            subprocess.CalledProcessError: it failed; it reported on stderr.
        """
        command = [*program, *self._command(*words)]
        subprocess.run(command, check=True, stdout=sys.stderr, **self._how())

    def logs(self, since: float) -> str:
        """Return what processes and servers wrote since then, but for lines about single tasks."""
        lines = [
            f"{container.name}: {line}"
            for container in self.containers(*PROCESSES, *SERVERS)
            for line in container.logs(since=int(since)).decode(errors="replace").splitlines()
            if not any(word in line for word in TASK_LINES)
        ]
        return "\n".join(lines)

    def password(self, name: str) -> str:
        """Return a password as the administrator gets it.

        Args:
            name: ``admin``, of the web UI's first user; ``prometheus``.
        """
        file = f"{PASSWORDS}/{name}"
        command = self._command("run", "--rm", "--entrypoint", "cat", "secure", file)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **self._how())
        return done.stdout.strip()

    def scale(self, schedulers: int) -> None:
        """Run so many schedulers; blocks until those that are too many have drained."""
        options = ("--detach", "--no-deps", "--no-recreate", "--scale", f"{SCHEDULER}={schedulers}")
        self.run("up", *options, SCHEDULER)

    def containers(self, *services: str) -> list[Container]:
        """Return the running containers of these services, the oldest first."""
        labels = [f"com.docker.compose.project={PROJECT}", "com.docker.compose.oneoff=False"]
        found = self.engine.containers.list(filters={"label": labels})
        wanted = [each for each in found if service_of(each) in services]
        return sorted(wanted, key=lambda each: str(each.attrs["Created"]))

    @contextmanager
    def tool(
        self, name: str, command: list[str], *networks: str, like: str | None = None
    ) -> Iterator[Container]:
        """Run another container of our image while the block runs, with the checkout to read.

        Args:
            name: by which others on its networks reach it.
            command: what it runs.
            networks: ``cluster``, ``outside`` or both.
            like: the service whose settings and secrets it gets; None: a stranger's.
        """
        lent = self._lent(like) if like else {"environment": []}
        lent["environment"] = [*lent["environment"], f"PYTHONPATH={CHECKOUT}"]
        container = self.engine.containers.run(
            f"pyspider-zk:{self.tag}",
            name=name,
            hostname=name,
            network=NETWORKS[networks[0]],
            entrypoint=command,
            volumes={str(ROOT / "tests"): {"bind": f"{CHECKOUT}/tests", "mode": "ro"}},
            detach=True,
            init=True,
            healthcheck={"test": ["NONE"]},  # it is no process of the cluster
            **lent,
        )
        try:
            for network in networks[1:]:
                self.network(network).connect(container)
            yield container
        finally:
            container.remove(force=True)

    def network(self, name: str) -> Network:
        """Return ``cluster`` or ``outside``."""
        return self.engine.networks.get(NETWORKS[name])

    def _lent(self, service: str) -> dict[str, list[str]]:
        first, *_ = self.containers(service)
        return {"environment": first.attrs["Config"]["Env"], "volumes_from": [f"{first.id}:ro"]}

    def _command(self, *words: str) -> list[str]:
        return [*self._compose, "--project-name", PROJECT, "--file", "compose.yaml", *words]

    def _how(self) -> dict[str, Any]:
        variables = {
            "DOCKER_HOST": self._url,
            "DOMAIN": DOMAIN,
            "VERSION": self.tag,
            "SERVERS_VERSION": self._servers_tag,
            "WEBUI_PORT": "0",  # any free one
            "COMPOSE_PROFILES": "monitoring,rendering",
            "PROMETHEUS_PORT": "0",
        }
        return {"cwd": ROOT / "deploy", "env": {**os.environ, **variables}}


def service_of(container: Container) -> str:
    """Return the service that a container runs."""
    return str(container.labels["com.docker.compose.service"])


def compose_command() -> list[str]:
    """Return the command of compose: docker's plugin, or the program of its own.

    Raises:
        MissingService: there is neither.
    """
    docker = shutil.which("docker")
    if docker is not None:
        probe = [docker, "compose", "version"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return [docker, "compose"]
    if shutil.which("docker-compose") is None:
        raise MissingService(NO_COMPOSE)
    return ["docker-compose"]
