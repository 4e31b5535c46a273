"""Language: replacements for what later Pythons forbid, removed or warn about."""

from edits.edit import Edit

_ABC = "the abstract collections left `collections` in Python 3.10"

EDITS = (
    Edit(
        "pyspider/libs/counter.py",
        "from collections import Mapping as DictMixin",
        "from collections.abc import Mapping as DictMixin",
        _ABC,
    ),
    Edit(
        "pyspider/scheduler/task_queue.py",
        "from collections import Mapping as DictMixin",
        "from collections.abc import Mapping as DictMixin",
        _ABC,
    ),
    Edit(
        "pyspider/libs/base_handler.py",
        "import functools\nimport fractions\n",
        "import functools\n",
        "fractions.gcd is gone since Python 3.9",
    ),
    Edit(
        "pyspider/libs/base_handler.py",
        "args, varargs, keywords, defaults = inspect.getargspec(function)",
        "args = inspect.getfullargspec(function).args",
        "inspect.getargspec is gone since Python 3.11",
    ),
    Edit(
        "pyspider/libs/utils.py",
        "datetime.datetime.utcfromtimestamp(date)",
        "datetime.datetime.fromtimestamp(date, datetime.timezone.utc).replace(tzinfo=None)",
        "utcfromtimestamp warns since Python 3.12",
    ),
    Edit(
        "pyspider/libs/utils.py",
        "datetime.datetime.utcnow()",
        "datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)",
        "utcnow warns since Python 3.12",
    ),
    Edit(
        "pyspider/libs/utils.py",
        "    result = sock.connect_ex((addr, port))\n",
        "    with sock:\n        result = sock.connect_ex((addr, port))\n",
        "a socket that nobody closes is a ResourceWarning",
    ),
    Edit(
        "pyspider/database/base/projectdb.py",
        're.split("\\W+"',
        're.split(r"\\W+"',
        "an invalid escape sequence is a SyntaxWarning since Python 3.12",
        count=2,
    ),
    Edit(
        "pyspider/libs/wsgi_xmlrpc.py",
        "return ['']",
        "return [b'']",
        "a WSGI body is bytes; Tornado 6 would leave the client waiting",
    ),
)
