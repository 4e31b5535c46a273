"""The highest seal of a cluster in a task database, read without making anything there."""

from pathlib import Path

import sqlalchemy
from sqlalchemy import Engine

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
    engine = _engine(url)
    if engine is None:
        return 0
    try:
        return _highest(engine, cluster)
    except sqlalchemy.exc.SQLAlchemyError as error:
        why = brief(getattr(error, "orig", None) or error)
        raise Unavailable(f"taskdb cannot be read: {why}") from error
    finally:
        engine.dispose()


def _highest(engine: Engine, cluster: str) -> int:
    if not sqlalchemy.inspect(engine).has_table(TABLE):
        return 0
    seals = sqlalchemy.table(TABLE, sqlalchemy.column("cluster"), sqlalchemy.column("epoch"))
    of_cluster = seals.c.cluster == cluster
    query = sqlalchemy.select(sqlalchemy.func.max(seals.c.epoch)).where(of_cluster)
    with engine.connect() as link:
        return link.execute(query).scalar() or 0


def _engine(url: str) -> Engine | None:
    from pyspider.database.sqlalchemy.connections import make_engine

    path = sqlite_path("taskdb", url)
    if path is None:
        address = server_address("taskdb", url)
        return None if address is None else make_engine(address)
    if not Path(path).exists():
        return None
    query = {"mode": "ro", "uri": "true"}
    return sqlalchemy.create_engine(
        sqlalchemy.URL.create("sqlite", database=Path(path).resolve().as_uri(), query=query)
    )
