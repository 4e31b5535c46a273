"""The highest seal of a cluster in a task database, read without making anything there."""

from pathlib import Path

import sqlalchemy
from pyspider.database.sqlalchemy.connections import make_engine
from sqlalchemy.exc import SQLAlchemyError

from pyspider_zk.databases.urls import server_address, sqlite_path
from pyspider_zk.errors import Unavailable, brief
from pyspider_zk.tasks.seals import TABLE


def highest_seal(url: str, cluster: str) -> int:
    """Return the highest epoch that a task database knows of a cluster, 0 if it knows none.

    Blocks for some seconds at most.

    Args:
        url: of the task database; one without transactions has no seals.
        cluster: its root.

    Raises:
        LookupError, ValueError, ImportError: the URL is none that can work.
        Unavailable: the database does not answer, or refuses the login.
    """
    address = _address(url)
    if address is None:
        return 0
    engine = make_engine(address)
    try:
        return _highest(engine, cluster)
    except SQLAlchemyError as error:
        where = address.host or address.database
        raise Unavailable(f"taskdb at {where} cannot be read: {brief(error)}") from error
    finally:
        engine.dispose()


def _address(url: str) -> sqlalchemy.URL | None:
    path = sqlite_path("taskdb", url)
    if path is None:
        return server_address("taskdb", url)
    file = Path(path).resolve()
    if not file.exists():
        return None
    return sqlalchemy.URL.create(
        "sqlite", database=file.as_uri(), query={"mode": "ro", "uri": "true"}
    )


def _highest(engine: sqlalchemy.Engine, cluster: str) -> int:
    if not sqlalchemy.inspect(engine).has_table(TABLE):
        return 0
    seals = sqlalchemy.table(TABLE, sqlalchemy.column("cluster"), sqlalchemy.column("epoch"))
    of_cluster = seals.c.cluster == cluster
    query = sqlalchemy.select(sqlalchemy.func.max(seals.c.epoch)).where(of_cluster)
    with engine.connect() as link:
        return link.execute(query).scalar() or 0
