"""What is wrong with the URLs of databases is said before anything is connected."""

import pytest
from pyspider.database import connect_database, servers

from pyspider_zk.databases.urls import faults

SERVER = "sqlalchemy+postgresql"


def urls(task: str, project: str = "", result: str = "") -> dict[str, str]:
    given = {"taskdb": task, "projectdb": project, "resultdb": result}
    return {kind: url for kind, url in given.items() if url}


@pytest.mark.parametrize(
    "url",
    [
        "sqlite+taskdb:///task.db",
        "sqlite+taskdb://",
        "mysql+taskdb://h",
        "mysql+taskdb://u:p%40ss@h:3306/x",
        "sqlalchemy+mysql+taskdb://u:p@h/x",
        "sqlalchemy+mysql+mysqlconnector+taskdb://u:p@h/x",
        "sqlalchemy+mariadb+taskdb://u:p@h/x",
        "sqlalchemy+postgresql+taskdb://u:p@h/x?sslmode=verify-full",
        "sqlalchemy+postgresql+psycopg+taskdb://u:p@h/x",
        "sqlalchemy+sqlite+taskdb:///task.db",
    ],
)
def test_what_works_has_no_fault(url: str) -> None:
    assert faults(urls(url)) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mongodb+taskdb://u:S3CRET@h/x", "MongoDB is not supported: use sqlite, PostgreSQL or"),
        ("elasticsearch+taskdb://u:S3CRET@h/", "Elasticsearch is not supported: use sqlite"),
        ("es+taskdb://u:S3CRET@h/", "Elasticsearch is not supported"),
        ("sqlalchemy+taskdb://u:S3CRET@h/x", "names no database"),
        ("sqlalchemy+oracle+taskdb://u:S3CRET@h/x", "oracle is not supported, only postgresql+psy"),
        ("sqlalchemy+postgresql+psycopg2+taskdb://u:S3CRET@h/x", "psycopg2 is not supported, only"),
        ("sqlalchemy+postgresql+taskdb://u:S3CRET@h:port/x", "special characters of user and pass"),
        ("mysql+taskdb://u:x@S3CRET@h/x", "special characters of user and password %-encoded"),
        ("mysql+projectdb://u:S3CRET@h/x", "must begin as ENGINE+taskdb://"),
        ("u:S3CRET@h/x", "must begin as ENGINE+taskdb://"),
        ("nonsense+taskdb://u:S3CRET@h/x", "there is no engine 'nonsense'; known are sqlite"),
        ("redis+taskdb://u:S3CRET@h:6379/0", "has another owner by now; use sqlite, PostgreSQL"),
        ("local+taskdb://S3CRET.py", "holds no taskdb, only projectdb: use sqlite, PostgreSQL"),
    ],
)
def test_a_fault_names_database_and_remedy_and_no_password(url: str, said: str) -> None:
    (fault,) = faults(urls(url))
    assert fault.startswith("taskdb: ")
    assert said in fault
    assert "S3CRET" not in fault


def test_redis_holds_no_projects_either() -> None:
    (fault,) = faults(urls("", project="redis+projectdb://u:S3CRET@h/0"))
    assert fault.startswith("projectdb: Redis is not supported: it has no transactions")
    assert faults(urls("", project="local+projectdb://a.py,b.py")) == []


def test_databases_whose_tables_would_mix_are_refused() -> None:
    shared = "u:p@h/crawl"
    (fault,) = faults(urls(f"{SERVER}+taskdb://{shared}", result=f"{SERVER}+resultdb://{shared}"))
    assert fault.startswith("taskdb, resultdb: give each a database of its own")
    assert faults(urls("sqlite+taskdb:///x", result="sqlite+resultdb:///x")) == []
    assert faults(urls("mysql+taskdb://h", result="mysql+resultdb://h")) == []


@pytest.mark.parametrize("driver", ["psycopg", "sqlalchemy"])
def test_a_driver_that_is_missing_is_named(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = servers.find_spec
    monkeypatch.setattr(servers, "find_spec", lambda name: None if name == driver else find(name))
    (fault,) = faults(urls(f"{SERVER}+taskdb://u:S3CRET@h/x"))
    assert "is missing, which this database needs" in fault
    assert "requirements/postgresql.txt" in fault
    assert "S3CRET" not in fault


@pytest.mark.parametrize(
    "url",
    [
        "mongodb+taskdb://u:S3CRET@h/x",
        "mysql+taskdb://u:x@S3CRET@h/x",
        "mysql+taskdb://u:S3CRET℀@h/x",
        "sqlalchemy+postgresql+taskdb://[u:S3CRET@h/x",
    ],
)
def test_plain_pyspider_tells_no_password_either(url: str) -> None:
    with pytest.raises((LookupError, ValueError)) as refused:
        connect_database(url)
    assert "S3CRET" not in str(refused.value)
    assert refused.value.__cause__ is None
