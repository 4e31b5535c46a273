"""What `pyspider-zk up` runs with its defaults, on a machine of its own with a neighbour."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from kazoo.client import KazooClient

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings
from pyspider_zk.local.folder import Running, with_password
from pyspider_zk.zookeeper.access import login
from tests.attack.doors import PORTS
from tests.attack.state import State, plant, state
from tests.support.network import Network
from tests.support.running_cluster import STILL, settings_of, up

MACHINE, NEIGHBOUR = "machine", "neighbour"
NOBODY = 65534  # the user of that name


@dataclass(frozen=True)
class Alone:
    """The machine; this thread is on it."""

    network: Network
    folder: Path
    running: Running

    @property
    def webui(self) -> str:
        """Host and port of the web UI."""
        return self.running.webui.removeprefix("http://").rstrip("/")

    @property
    def settings(self) -> Settings:
        """What a command in the folder of `up` is set to."""
        return settings_of(self.running)

    @property
    def redis_url(self) -> str:
        """The URL of Redis with its password."""
        return with_password(self.running.message_queue, self.running.redis_password_file)

    @property
    def secrets(self) -> list[str]:
        """What nobody else may learn: the cluster's secret and the passwords of its servers."""
        files = (
            self.running.secret_file,
            self.running.zookeeper_password_file,
            self.running.redis_password_file,
        )
        return [Path(file).read_text(encoding="ascii").strip() for file in files]

    @property
    def secret(self) -> str:
        """What opens the schedulers' XML-RPC."""
        return Path(self.running.secret_file).read_text(encoding="ascii").strip()

    @property
    def databases(self) -> dict[str, str]:
        """The URLs of the databases, by kind."""
        return {kind: getattr(self.running, f"{kind}db") for kind in ("task", "project", "result")}

    def schedulers(self) -> list[str]:
        """Return host and port of each scheduler's XML-RPC."""
        with Directory(self.settings) as directory:
            return [member.address for member in directory.members().values()]

    def ports(self) -> set[int]:
        """Return where everything listens that `up` starts."""
        queue = re.search(r":(\d+)/", self.running.message_queue)
        assert queue
        addresses = [self.running.zookeeper.partition("/")[0], *self.schedulers()]
        return {PORTS["web UI"], int(queue[1]), *(int(a.rpartition(":")[2]) for a in addresses)}

    def readable(self) -> list[str]:
        """Return the files of `up` that another user of the machine can read."""
        data = self.folder / "data"
        found = subprocess.run(
            ["find", str(data), "-type", "f", "-readable"],  # noqa: S607
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,  # it fails if there are folders that it may not enter
        )
        return sorted(str(Path(path).relative_to(data)) for path in found.stdout.splitlines())

    def state(self) -> State:
        """Return all that stands: rows, znodes with versions and ACLs, keys, the secret."""
        client = KazooClient(self.settings.hosts, timeout=30, **login(self.settings))
        client.start(60)
        try:
            with closing(redis.Redis.from_url(self.redis_url)) as store:
                files = [Path(self.running.secret_file)]
                return state(self.databases, client, self.settings.root, store, files)
        finally:
            client.stop()
            client.close()


@contextmanager
def alone() -> Iterator[Alone]:
    """Run `up` as a user starts it, but for the number of processors; be on its machine.

    And but for lease and session: a slot that moves would look like an attack's work.
    """
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    folder.chmod(0o755)  # as a home is on a machine that is shared
    config = folder / "config.json"
    config.write_text(json.dumps({"zookeeper": STILL}), encoding="utf-8")
    try:
        with (
            Network([MACHINE, NEIGHBOUR], "atk") as network,
            network.entered(MACHINE),
            up(folder, "--webui-port", str(PORTS["web UI"]), config=config) as running,
        ):
            found = Alone(network, folder, running)
            plant(found.databases)
            yield found
    finally:
        shutil.rmtree(folder)
