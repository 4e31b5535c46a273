"""Records and znodes of a group, and its valid names."""

from dataclasses import dataclass
from urllib.parse import quote

from pyspider_zk.errors import ConfigError
from pyspider_zk.zookeeper.codec import Record

HOLDER = "holder"
PARTS = ("members", "ids", "joined", "barriers", "locks")


@dataclass(frozen=True)
class Holder(Record):
    """Holder of a group's name.

    Attributes:
        run: the value that all participants of one run share; another run is refused.
        home: the znode, below the group's, that contains everything of this run.
    """

    run: str
    home: str


@dataclass(frozen=True)
class Participant(Record):
    """A process that joined a group.

    Attributes:
        number: from zero; the same when a name returns.
        since: seconds since the epoch.
    """

    number: int
    name: str
    host: str
    pid: int
    since: float

    def __str__(self) -> str:
        who = f"number {self.number} ({self.name})" if self.name else f"number {self.number}"
        return f"{who} on {self.host}, pid {self.pid}"


@dataclass(frozen=True)
class Home:
    """The znodes of one run of a group, below its home."""

    path: str

    @property
    def members(self) -> str:
        """Parent of the ephemeral nodes; while it exists the run holds the name."""
        return f"{self.path}/members"

    def member(self, member: object) -> str:
        """One participant's ephemeral node."""
        return f"{self.members}/{member}"

    @property
    def ids(self) -> str:
        """Parent of the numbers."""
        return f"{self.path}/ids"

    @property
    def joined(self) -> str:
        """Parent of all that ever joined."""
        return f"{self.path}/joined"

    def joiner(self, name: str, number: int = 0) -> str:
        """Who joined last under this name, or under this number without a name."""
        return f"{self.joined}/" + (f"name-{quote(name, safe='')}" if name else f"number-{number}")

    def barrier(self, name: str) -> str:
        """One barrier."""
        return f"{self.path}/barriers/{check_name(name, 'barrier')}"

    def lock(self, name: str) -> str:
        """One lock."""
        return f"{self.path}/locks/{check_name(name, 'lock')}"


def check_name(name: str, what: str) -> str:
    """Return the name if it is valid for a znode.

    Raises:
        ConfigError: naming the fault.
    """
    if not name or not name.isprintable() or "/" in name or name in (".", ".."):
        raise ConfigError(
            [f"{what}: {name!r} cannot be its name; use printable characters and no slash"]
        )
    return name
