"""The highest seal on a server, by SQLAlchemy, which is installed only where it is used."""

import sqlalchemy
from pyspider.database.sqlalchemy.connections import make_engine
from sqlalchemy import Engine

from pyspider_zk.errors import Unavailable, brief
from pyspider_zk.tasks.seals import TABLE


def highest_on_server(address: sqlalchemy.URL, cluster: str) -> int:
    """Return the highest epoch that a server knows of a cluster; see ``highest_seal``.

    Raises:
        Unavailable: it does not answer, or refuses the login.
    """
    engine = make_engine(address)
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
