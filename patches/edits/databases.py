"""Which database a URL means."""

from edits.edit import Edit, Span

FILE = "pyspider/database/__init__.py"

REMOVED = (
    "pyspider/database/elasticsearch",
    "pyspider/database/mongodb",
    "pyspider/database/mysql",
    "pyspider/database/sqlalchemy/sqlalchemybase.py",
)
"""What no driver of today runs; `added/` has what stands for it, if anything does."""

EDITS = (
    Span(
        FILE,
        "    if engine == 'mysql':\n",
        "    elif engine == 'redis':\n",
        "    if engine == 'sqlite':\n"
        "        return _connect_sqlite(parsed, dbtype)\n"
        "    elif engine in ('mysql', 'sqlalchemy'):\n"
        "        return servers.connect(engine, other_scheme, dbtype, url)\n"
        "    elif engine in servers.UNSUPPORTED:\n"
        "        raise servers.unsupported(engine)\n",
        "MySQL goes by SQLAlchemy, which heals its connections and serves several threads; what"
        " cannot work says so",
    ),
    Span(
        FILE,
        "    elif engine == 'elasticsearch' or engine == 'es':\n",
        "    else:\n        raise Exception('unknown engine",
        "",
        "Elasticsearch is not supported",
    ),
    Span(
        FILE,
        "def _connect_mysql(",
        "def _connect_sqlite(",
        "",
        "MySQL goes by SQLAlchemy",
    ),
    Span(
        FILE,
        "\n\ndef _connect_mongodb(",
        "        from .elasticsearch.taskdb import TaskDB\n",
        "",
        "neither MongoDB nor Elasticsearch is supported, and SQLAlchemy has a module of its own",
    ),
    Edit(
        FILE,
        "        from .elasticsearch.taskdb import TaskDB\n"
        "        return TaskDB([parsed.netloc], index=index)",
        "",
        "Elasticsearch is not supported",
    ),
    Edit(
        FILE,
        "from six.moves.urllib.parse import urlparse, parse_qs\n",
        "from six.moves.urllib.parse import urlparse\n\nfrom . import servers\n",
        "the URLs of servers have a module of their own",
    ),
    Edit(
        FILE,
        "    parsed = urlparse(url)\n",
        "    try:\n"
        "        parsed = urlparse(url)\n"
        "    except ValueError:\n"
        "        raise ValueError('the URL of a database is none') from None\n",
        "the error would repeat the URL, with its password",
    ),
    Span(
        FILE,
        "    mongodb:\n",
        "    sqlalchemy:\n",
        "",
        "MongoDB is not supported",
    ),
    Span(
        FILE,
        "        sqlalchemy+mysql+mysqlconnector",
        "    redis:\n",
        "        sqlalchemy+mysql+type://user:passwd@host:port/database\n"
        "        special characters of user and passwd are %-encoded\n",
        "what is tested is named",
    ),
    Span(
        FILE,
        "    elasticsearch:\n",
        "    local:\n",
        "",
        "Elasticsearch is not supported",
    ),
)
