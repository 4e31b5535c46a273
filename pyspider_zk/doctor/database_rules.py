"""Rules about pyspider's databases. Pure."""

from collections.abc import Iterator

from pyspider_zk.config import Settings
from pyspider_zk.databases.facts import DatabaseFileFacts, DatabaseServerFacts
from pyspider_zk.doctor.findings import Finding, failed, judged, milliseconds, ok, several, warning
from pyspider_zk.listening import is_loopback

ENCODINGS = ("UTF8", "utf8mb4")
ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ")
_OTHERS = 0o077


def server_findings(facts: DatabaseServerFacts, settings: Settings) -> Iterator[Finding]:
    """Judge what is known of a database on a server that let us in."""
    yield ok(f"{facts.product} {facts.version} accepts the login")
    yield _latency(facts.latency, settings)
    yield _encoding(facts.encoding)
    yield judged(
        facts.isolation in ISOLATIONS,
        f"isolation {facts.isolation}",
        warning(
            f"isolation {facts.isolation} is not tested",
            f"let the user's transactions be {ISOLATIONS[0]}",
        ),
    )
    yield judged(
        not facts.read_only,
        "it accepts writes",
        failed("it accepts no writes: a replica, or read_only is set", "name the primary server"),
    )
    yield _encryption(facts)
    yield _schema(facts.narrow)


def _latency(latency: float, settings: Settings) -> Finding:
    told = f"answers in {milliseconds(latency)}"
    slow = warning(f"{told}; the budget is {settings.budget:g} s", "move it closer to schedulers")
    return judged(latency <= settings.budget / 4, told, slow)


def _encoding(encoding: str) -> Finding:
    return judged(
        encoding in ENCODINGS,
        f"encoding {encoding}",
        failed(
            f"encoding {encoding}: not every URL and page can be stored",
            "make the database anew with ENCODING 'UTF8' TEMPLATE template0 (PostgreSQL) or"
            " CHARACTER SET utf8mb4 (MariaDB)",
        ),
    )


def _encryption(facts: DatabaseServerFacts) -> Finding:
    is_local = not facts.host or is_loopback(facts.host)
    return judged(
        facts.encrypted or is_local,
        "TLS" if facts.encrypted else "no TLS, on this machine only",
        warning(
            "no TLS: whoever listens to the network reads pages and scripts",
            "add ?sslmode=verify-full&sslrootcert=FILE (PostgreSQL) or ?ssl_ca=FILE (MariaDB) to"
            " the URL",
        ),
    )


def _schema(narrow: tuple[str, ...]) -> Finding:
    return judged(
        not narrow,
        "no table has short columns",
        warning(
            f"{several(narrow)}: made by an old pyspider, long URLs are refused",
            "widen the column url as docs/how-to/databases.md says",
        ),
    )


def file_findings(facts: DatabaseFileFacts) -> Iterator[Finding]:
    """Judge what is known of an sqlite file."""
    if not facts.folder_is_writable:
        yield failed(
            f"the folder of {facts.path} is missing or cannot be written",
            "make it, and give it to the user of the processes",
        )
    elif not facts.exists:
        yield ok(f"{facts.path} does not exist; it is made at the first start")
    if not facts.exists:
        return
    if facts.fault or not facts.is_sqlite:
        yield failed(
            f"{facts.path} cannot be read: {facts.fault or 'it is no sqlite file'}",
            "restore it from a backup, or name another file",
        )
        return
    yield _writable(facts)
    yield _closed(facts)
    if facts.encoding != "empty":
        yield _wal(facts)


def _writable(facts: DatabaseFileFacts) -> Finding:
    return judged(
        facts.is_writable,
        f"{facts.path} can be read and written",
        failed(f"{facts.path} cannot be written", "give it to the user of the processes"),
    )


def _closed(facts: DatabaseFileFacts) -> Finding:
    return judged(
        not facts.mode & _OTHERS,
        "closed to other users",
        warning(
            f"{facts.path} can be used by others (mode {facts.mode:03o})",
            f"chmod 600 {facts.path}, or close its folder",
        ),
    )


def _wal(facts: DatabaseFileFacts) -> Finding:
    return judged(
        facts.has_wal,
        "write-ahead log",
        warning(
            f"{facts.path} has no write-ahead log: readers and the writer wait for each other",
            f'sqlite3 {facts.path} "PRAGMA journal_mode=WAL", unless machines share the file',
        ),
    )
