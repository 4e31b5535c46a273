"""Facts about a database, as `survey` finds them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DatabaseServerFacts:
    """What is known of a database on a server. Times are seconds.

    Attributes:
        product: ``PostgreSQL``, ``MariaDB`` or ``MySQL``.
        version: as the server tells it.
        host: of its address; empty: a socket of this machine.
        encoding: of the database.
        isolation: level of a transaction, in capitals.
        encrypted: whether our connection is.
        read_only: whether it refuses to write: a replica.
        latency: of a statement.
        ahead: how far its clock is before ours.
        narrow: tables of tasks that pyspider made with a short column of URLs.
    """

    product: str
    version: str
    host: str
    encoding: str
    isolation: str
    encrypted: bool
    read_only: bool
    latency: float
    ahead: float
    narrow: tuple[str, ...]


@dataclass(frozen=True)
class DatabaseFileFacts:
    """What is known of an sqlite file.

    Attributes:
        path: of the file.
        exists: whether it does; if not, the rest means nothing.
        folder_is_writable: whether sqlite can keep its journal beside it.
        is_writable: whether we may write it.
        mode: who else may use it, as of ``chmod``.
        is_sqlite: whether it begins as such a file; an empty one does.
        encoding: of its texts.
        has_wal: whether it uses the write-ahead log.
        fault: why it cannot be read; empty: it can.
    """

    path: str
    exists: bool = False
    folder_is_writable: bool = False
    is_writable: bool = False
    mode: int = 0
    is_sqlite: bool = True
    encoding: str = ""
    has_wal: bool = False
    fault: str = ""


DatabaseFacts = DatabaseServerFacts | DatabaseFileFacts
