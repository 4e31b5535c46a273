"""The queues in Redis: logins with a name, TLS, and masters that sentinels name."""

from edits.edit import Edit

_CONNECT = "pyspider/message_queue/__init__.py"
_QUEUE = "pyspider/message_queue/redis_queue.py"
_LOGIN = "Redis 6 has users with names; a password with special characters is written %-encoded"
_SENTINELS = "redis+sentinel:// asks sentinels for the master, so that Redis can fail over"
_TLS = "rediss:// verifies the certificate: its authority and the name of the host"

EDITS = (
    Edit(
        _CONNECT,
        "    parsed = urlparse.urlparse(url)\n",
        "    from .sentinel_url import is_sentinel_url\n"
        "    if is_sentinel_url(url):\n"
        "        from .sentinel_queue import Queue\n"
        "        return Queue(name, url, maxsize=maxsize, lazy_limit=lazy_limit)\n"
        "\n"
        "    parsed = urlparse.urlparse(url)\n",
        _SENTINELS,
    ),
    Edit(
        _CONNECT,
        "    kombu:\n",
        "        redis+sentinel://host1:26379,host2:26379/master-name/db\n    kombu:\n",
        _SENTINELS,
    ),
    Edit(
        _CONNECT,
        "    elif parsed.scheme == 'redis':\n",
        "    elif parsed.scheme in ('redis', 'rediss'):\n",
        _TLS,
    ),
    Edit(
        _CONNECT,
        "            password = parsed.password or None\n",
        "            password = urlparse.unquote(parsed.password or '') or None\n"
        "            options = {}\n"
        "            if parsed.username:\n"
        "                options['username'] = urlparse.unquote(parsed.username)\n"
        "            if parsed.scheme == 'rediss':\n"
        "                options = dict(urlparse.parse_qsl(parsed.query), **options)\n"
        "                options.update(ssl=True, ssl_cert_reqs='required',\n"
        "                               ssl_check_hostname=True)\n",
        _LOGIN + "; " + _TLS,
    ),
    Edit(
        _CONNECT,
        "password=password, lazy_limit=lazy_limit)",
        "password=password, lazy_limit=lazy_limit, **options)",
        _LOGIN,
    ),
    Edit(
        _QUEUE,
        "password=None, cluster_nodes=None):",
        "password=None, cluster_nodes=None, **options):",
        _LOGIN,
    ),
    Edit(
        _QUEUE,
        "port=port, db=db, password=password)",
        "port=port, db=db, password=password, **options)",
        _LOGIN,
    ),
)
