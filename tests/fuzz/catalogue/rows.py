"""Bad rows in the three databases, written past pyspider's code."""

from collections.abc import Iterator
from functools import partial

from tests.fuzz.catalogue import junk
from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import PLAIN_SCRIPT, Grip
from tests.fuzz.raw_databases import KeptOutError, quoted

AT_FAULT = (Place.QUARANTINE, Place.LOG)
BORNE = (*AT_FAULT, Place.LISTED)  # it harms nobody, and the page shows the project
_NO_UTF8 = "\udcff"  # stands for a text that sqlite keeps and Python cannot read

_VALUES: dict[str, object] = {
    "NULL": None,
    "bytes": b"\xff\xfe\x00",
    "a text": "fast",
    "an empty text": "",
    "infinity": float("inf"),
    "10^300": 1e300,
    "a negative number": -7,
    "2 MB": "x" * 2_000_000,
    "a text that is no UTF-8": _NO_UTF8,
}

_NUMBERS = ("rate", "burst", "updatetime")
_TEXTS = ("group", "status", "comments", "script")
_HARM = ("NULL", "bytes", "a text", "an empty text", "2 MB")
"""What no number can be taken from."""

_NAMES: dict[str, object] = {
    "NULL": None,
    "nothing": "",
    "bytes": b"\xff\xfe",
    "a number": 7,
    "two words": "two words",
    "a path": "../../etc/passwd",
    "SQL": "a`; DROP TABLE projectdb; --",
    "markup": "<script>alert(1)</script>",
    "300 characters": "n" * 300,
    "a line break": "line\nbreak",
    "another alphabet": "\u043f\u0440\u043e\u0435\u043a\u0442",
    "a colon": "newtask_queue:ready",
}

_SCRIPTS = {
    "is no Python": "def (",
    "has a null byte": "x = 1\x00",
    "has no handler": "x = 1",
    "raises when it is loaded": "raise RuntimeError('loaded')",
    "ends the process when it is loaded": "import sys\nsys.exit(3)",
    "ends the process at once": "raise SystemExit",
    "interrupts": "raise KeyboardInterrupt",
    "is nested too deeply": "x = " + "(" * 5000 + ")" * 5000,
    "imports what is not there": "import no_such_module_at_all",
    "has a handler that cannot be made": "from pyspider.libs.base_handler import BaseHandler\n"
    "class Handler(BaseHandler):\n    def __init__(self):\n        raise ValueError('made')\n",
    "raises in on_start": PLAIN_SCRIPT.replace("pass", "raise ValueError('started')"),
    "ends the process in on_start": PLAIN_SCRIPT.replace("pass", "import sys; sys.exit(3)"),
    "returns what cannot be stored": PLAIN_SCRIPT.replace("pass", "return {'a': object()}"),
    "crawls what is no URL": PLAIN_SCRIPT.replace("pass", "self.crawl(7)"),
    "crawls with a schedule of junk": PLAIN_SCRIPT.replace(
        "pass",
        "self.crawl('data:,x', priority='high', age='old', exetime='x', callback='on_start')",
    ),
    "crawls with a save of bytes": PLAIN_SCRIPT.replace(
        "pass", "self.crawl('data:,x', save=object(), callback='on_start')"
    ),
    "recurses without end": PLAIN_SCRIPT.replace("pass", "self.on_start()"),
    # After the class is made, for pyspider works the tick out while it makes it.
    "tells ticks of text": f"{PLAIN_SCRIPT}\nHandler._min_tick = 'often'\n",
    "has a configuration of junk": PLAIN_SCRIPT.replace(
        "class Handler(BaseHandler):", "class Handler(BaseHandler):\n    crawl_config = [7]"
    ),
    "has delays of junk": PLAIN_SCRIPT.replace(
        "class Handler(BaseHandler):", "class Handler(BaseHandler):\n    retry_delay = 'long'"
    ),
}

_PARTS: dict[str, object] = {
    "NULL": None,
    "nothing": "",
    "no JSON": "{junk",
    "a list": "[]",
    "a text": '"text"',
    "null": "null",
    "a number": "7",
    "bytes": b"\xff\xfe",
    "nested 100,000 deep": junk.DEEP_JSON.decode(),
    "half a surrogate": '{"a": "\\ud800"}',
    "a number of 5,000 digits": '{"a": ' + "9" * 5000 + "}",
    "2 MB": '{"a": "' + "x" * 2_000_000 + '"}',
}

_SCHEDULES = {
    "a priority of text": '{"priority": "high"}',
    "a priority that is null": '{"priority": null}',
    "a priority that is no number": '{"priority": NaN}',
    "a time of text": '{"exetime": "soon"}',
    "a time that is no number": '{"exetime": NaN}',
    "a time without end": '{"exetime": 1e999}',
    "a time that is a list": '{"exetime": [1]}',
    "retries of text": '{"retries": "many", "retried": {}}',
    "an age of text": '{"age": "old", "auto_recrawl": true}',
}

_COLUMNS: dict[str, dict[str, object]] = {
    "a status of 99": {"status": 99},
    "a status of text": {"status": "active"},
    "a status that is NULL": {"status": None},
    "a status of bytes": {"status": b"\x01"},
    "no id": {"taskid": None},
    "an id of bytes": {"taskid": b"\xff\xfe"},
    "an id that is a number": {"taskid": 770_077_008},
    "no project": {"project": None},
    "another project": {"project": "somebody_else"},
    "a project of bytes": {"project": b"\xff"},
    "no URL": {"url": None},
    "a URL that is a number": {"url": 7},
    "a URL of bytes": {"url": b"\xff\xfe"},
    "a crawl time of text": {"lastcrawltime": "yesterday"},
    "an update time of text": {"updatetime": "today"},
}

_HARMLESS = ("crawls what is no URL", "crawls with a save of bytes")  # pyspider itself bears them


def entries() -> Iterator[Poison]:
    """Yield everything that is put into databases."""
    yield from _project_columns()
    yield from _project_names()
    yield from _scripts()
    yield from _task_rows()
    yield from _tables()
    yield from _result_rows()


def _project_columns() -> Iterator[Poison]:
    for column in (*_NUMBERS, *_TEXTS):
        for what, value in _VALUES.items():
            put = partial(_project, column, value)
            if value == _NO_UTF8:
                put = partial(_no_utf8, column)
            hurts = column in _NUMBERS and what in _HARM
            shown = AT_FAULT if hurts else (*BORNE, Place.FAILED)
            yield Poison("project rows", f"{column} is {what}", put, shown)


def _project(column: str, value: object, grip: Grip) -> Put:
    name = grip.fresh("row")
    grip.project_row(name, **{column: value})
    grip.begin_project(name)
    return Put(name)


def _no_utf8(column: str, grip: Grip) -> Put:
    """Write a text whose bytes are no UTF-8: sqlite keeps it, Python cannot read it."""
    if grip.cluster.has_server:
        raise KeptOutError("a text is UTF-8 there")
    name = grip.fresh("row")
    grip.project_row(name)
    statement = f"UPDATE projectdb SET {quoted(column)} = CAST(X'fffe' AS TEXT) WHERE name = ?"  # noqa: S608
    grip.databases.execute("project", statement, (name,))
    return Put(f"{name}|UTF-8")


def _project_names() -> Iterator[Poison]:
    for what, name in _NAMES.items():
        put = partial(_named, name)
        yield Poison("project rows", f"the name is {what}", put, BORNE)


def _named(name: object, grip: Grip) -> Put:
    grip.project_row(name)
    text = name if isinstance(name, str) else repr(name)
    return Put(text if len(text) > 1 else "name")


def _scripts() -> Iterator[Poison]:
    for what, script in _SCRIPTS.items():
        put = partial(_script, script)
        shown = (*AT_FAULT, Place.LETTER, Place.FAILED, Place.TASK)
        harmless = (Place.LISTED,) if what in _HARMLESS else ()
        yield Poison("project rows", f"the script {what}", put, (*shown, *harmless))


def _script(script: str, grip: Grip) -> Put:
    name = grip.fresh("script")
    grip.project_row(name, script=script)
    grip.begin_project(name)
    return Put(name)


def _task_rows() -> Iterator[Poison]:
    shown = (*AT_FAULT, Place.LETTER, Place.FAILED, Place.TASK)
    for column in ("schedule", "fetch", "process", "track"):
        for what, value in _PARTS.items():
            put = partial(_task, {column: value}, 1)
            yield Poison("task rows", f"{column} is {what}", put, shown)
    for what, value in _SCHEDULES.items():
        put = partial(_task, {"schedule": value}, 1)
        yield Poison("task rows", f"a schedule with {what}", put, shown)
    for what, columns in _COLUMNS.items():
        yield Poison("task rows", f"a row with {what}", partial(_task, columns, 1), shown)
    put = partial(_task, {"fetch": "null"}, 6)
    yield Poison("task rows", "six due rows with nothing to fetch, configured", put, shown)


def _task(columns: dict[str, object], count: int, grip: Grip) -> Put:
    """Write rows, then the project's, so that its owner loads them."""
    project = grip.fresh("tasks")
    for number in range(count):
        ids = {"taskid": f"{project}_t{number}"}
        grip.task_row(project, {**ids, **columns})
    config = "class Handler(BaseHandler):\n    crawl_config = {'headers': {'A': 'b'}}"
    script = PLAIN_SCRIPT.replace("class Handler(BaseHandler):", config)
    grip.project_row(project, script=script)
    return Put(f"{project}|{columns.get('taskid') or f'{project}_t0'}")


def _tables() -> Iterator[Poison]:
    """Yield tables that are none of pyspider's."""
    for what, sql in {
        "a column missing": "CREATE TABLE {table} (taskid TEXT, project TEXT, url TEXT)",
        "no column of ours": "CREATE TABLE {table} (a TEXT, b TEXT)",
        "a view": "CREATE VIEW {table} AS SELECT 1 AS taskid",
    }.items():
        put = partial(_table, sql)
        shown = (*AT_FAULT, Place.LETTER, Place.LISTED)
        yield Poison("task rows", f"a table with {what}", put, shown)
    for what, name in (("a space", "a b"), ("a quote", "a'b"), ("nothing", "")):
        put = partial(_foreign_table, name)
        yield Poison("task rows", f"a table whose name has {what}", put, (Place.NOBODY,))


def _table(sql: str, grip: Grip) -> Put:
    project = grip.fresh("table")
    table = quoted(grip.databases.table("task", project))
    grip.databases.execute("task", sql.format(table=table))
    grip.project_row(project)
    grip.begin_project(project)
    return Put(project)


def _foreign_table(name: str, grip: Grip) -> Put:
    table = grip.databases.table("task", name) or " "
    grip.databases.execute("task", f"CREATE TABLE IF NOT EXISTS {quoted(table)} (a TEXT)")
    return Put(table)


def _result_rows() -> Iterator[Poison]:
    for what, value in _PARTS.items():
        put = partial(_result, {"result": value})
        yield Poison("result rows", f"a result is {what}", put, (Place.ANSWER, Place.LOG))
    for column, value in (("taskid", None), ("url", None), ("url", 7), ("updatetime", "x")):
        put = partial(_result, {column: value})
        yield Poison("result rows", f"{column} is {value!r}", put, (Place.ANSWER, Place.LOG))


def _result(columns: dict[str, object], grip: Grip) -> Put:
    """Write a row and ask for the page: it must answer something, and go on answering."""
    project = grip.fresh("results")
    grip.project_row(project)
    row: dict[str, object] = {"taskid": "t", "url": "data:,x", "result": "{}", "updatetime": 0}
    row |= columns
    grip.databases.make_table("result", project)
    grip.databases.insert("result", grip.databases.table("result", project), row)
    _, said = grip.web("GET", f"/api/v1/results?project={project}")
    return Put(project, refused=not said.startswith("599"), said=said)
