"""Bad calls: XML-RPC, the HTTP API, pyspider's routes, WebDAV."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from tests.fuzz.catalogue import junk
from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import Grip

TOLD = (Place.ANSWER, Place.LOG)
HUGE = 5_000_000  # bytes
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

_METHODS = """
    size counter newtask send_task update_project get_active_tasks get_projects_pause_status
    webui_update local_size local_counter local_newtask local_send_task local_get_active_tasks
    local_webui_update local_project_numbers local_project_history submit_operation
    plan_operation get_batch list_batches cancel_batch retry_batch list_projects list_events
    find_events list_failures list_failed_tasks search_tasks get_task _quit system.methodHelp
"""

_TYPED: dict[str, tuple[Any, ...]] = {
    "counter": ({"a": 1}, []),
    "newtask": ("junk",),
    "send_task": (7,),
    "local_send_task": (["x"],),
    "get_active_tasks": ({"a": 1}, "many"),
    "submit_operation": ({"a": []}, "junk", 7, [], {}, "high", None),
    "plan_operation": (None, [[]], "x"),
    "get_batch": ({"a": 1},),
    "list_batches": ("first", -1),
    "cancel_batch": (None, []),
    "retry_batch": (7, {}),
    "list_projects": ([1], 7, "x", "y"),
    "list_events": ("x", "y"),
    "find_events": ({"group": 7}, [1, 2, 3], "x", {"since": "x"}, {"q": ""}),
    "list_failures": ([1], {"since": "x"}, {"kinds": 1}, "x"),
    "list_failed_tasks": ({"status_code": "x"}, [1, 2], ["x", [], {}], "x"),
    "search_tasks": ({"url": 7}, "row p #x", 7, {"state": "x"}, "x"),
    "local_project_numbers": (7,),
    "local_project_history": ({"a": 1},),
}

_TASKS: dict[str, Any] = {
    "null": None,
    "nothing": {},
    "a list": [],
    "of an illegal name": {"taskid": "t", "project": "a b", "url": "data:,"},
    "of SQL": {"taskid": "t", "project": "x", "url": "u", "track`) VALUES (1); --": "x"},
    "without an id": {"project": "x", "url": "u"},
    "with ids that are lists": {"taskid": [1], "project": ["x"], "url": ["u"]},
    "with a schedule of junk": {"taskid": "t", "project": "x", "url": "u", "schedule": "now"},
    "with a priority of text": {
        "taskid": "t",
        "project": "x",
        "url": "u",
        "schedule": {"priority": "x"},
    },
    "of 5 MB": {"taskid": "t", "project": "x", "url": "u" * HUGE},
}


def entries() -> Iterator[Poison]:
    """Yield everything that is called."""
    yield from _rpc()
    yield from _raw_rpc()
    yield from _updates()
    yield from _routes()
    yield from _api()
    yield from _dav()


# --- XML-RPC ------------------------------------------------------------------------------------


def _rpc() -> Iterator[Poison]:
    for method in _METHODS.split():
        put = partial(_call, method, tuple(range(9)))
        yield Poison("XML-RPC", f"{method} with nine arguments", put, TOLD)
    for method, arguments in _TYPED.items():
        put = partial(_call, method, arguments)
        yield Poison("XML-RPC", f"{method} with arguments of the wrong types", put, TOLD)
    for method in ("newtask", "send_task", "local_newtask", "local_send_task"):
        for what, task in _TASKS.items():
            put = partial(_call, method, (task,))
            yield Poison("XML-RPC", f"{method} of a task {what}", put, TOLD)
    for method in ("no_such_method", "", "__class__", "_dispatch", "system.multicall"):
        put = partial(_call, method, ("x",))
        yield Poison("XML-RPC", f"a method {method!r}", put, TOLD)
    for method in ("newtask", "submit_operation", "list_projects"):
        put = partial(_call, method, (_nested(200),))
        yield Poison("XML-RPC", f"{method} of mappings 200 deep", put, TOLD)


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"project": value}
    return value


def _call(method: str, arguments: tuple[Any, ...], grip: Grip) -> Put:
    refused, said = grip.call(method, *arguments)
    return Put(method, refused, said)


def _xml(method: str, value: bytes) -> bytes:
    return (
        b"<?xml version='1.0'?><methodCall><methodName>%s</methodName><params><param><value>"
        b"%s</value></param></params></methodCall>" % (method.encode(), value)
    )


_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no XML": b"junk",
    "bytes that are no text": b"\xff\xfe\x00\x80",
    "half a call": b"<?xml version='1.0'?><methodCall><methodName>size",
    "no method": b"<?xml version='1.0'?><methodCall></methodCall>",
    "half a surrogate": _xml("newtask", b"<string>&#xD800;</string>"),
    "a null character": _xml("newtask", b"<string>&#0;</string>"),
    "arrays 100,000 deep": _xml(
        "newtask", b"<array><data><value>" * 100_000 + b"</value></data></array>" * 100_000
    ),
    "entities that grow": b"<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a '"
    + b"x" * 1000
    + b"'>"
    + b"".join(b"<!ENTITY %c '%s'>" % (98 + n, b"&%c;" % (97 + n) * 50) for n in range(6))
    + b"]><methodCall><methodName>newtask</methodName><params><param><value><string>&g;"
    b"</string></value></param></params></methodCall>",
    "a file for an entity": b"<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a SYSTEM "
    b"'file:///etc/passwd'>]><methodCall><methodName>newtask</methodName><params><param><value>"
    b"<string>&a;</string></value></param></params></methodCall>",
    "a number that is none": _xml("newtask", b"<int>many</int>"),
    "a number of 5,000 digits": _xml("newtask", b"<int>" + b"9" * 5000 + b"</int>"),
    "a time that is none": _xml("newtask", b"<dateTime.iso8601>soon</dateTime.iso8601>"),
    "base64 that is none": _xml("newtask", b"<base64>\x01!!</base64>"),
    "a fault": b"<?xml version='1.0'?><methodResponse><fault></fault></methodResponse>",
    "5 MB of text": _xml("newtask", b"<string>" + b"x" * HUGE + b"</string>"),
}

_SENT: dict[str, bytes] = {
    "no HTTP": b"\x16\x03\x01junk\r\n\r\n",
    "a request without end": b"POST /RPC2 HTTP/1.1\r\nHost: x\r\n",
    "a length that is no number": b"POST /RPC2 HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    "a length below zero": b"POST /RPC2 HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "no length": b"POST /RPC2 HTTP/1.1\r\n\r\n<methodCall/>",
    "a length of 30 digits": b"POST /RPC2 HTTP/1.1\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\nx",
    "100 GB announced, 4 MB sent": b"POST /RPC2 HTTP/1.1\r\nContent-Length: 107374182400\r\n\r\n"
    + b"x" * 4_000_000,
    "a header of 200 KB": b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    "1,000 headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    "chunks of junk": b"POST /RPC2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\njunk\r\n",
}


def _raw_rpc() -> Iterator[Poison]:
    for what, body in _BODIES.items():
        yield Poison("XML-RPC", f"a body: {what}", partial(_post_rpc, body, {}), TOLD)
    zipped = {"Content-Encoding": "gzip"}
    put = partial(_post_rpc, junk.GZIP_BOMB, zipped)
    yield Poison("XML-RPC", "a body: a bomb of 64 MB", put, TOLD)
    yield Poison("XML-RPC", "a body: gzip that is none", partial(_post_rpc, b"junk", zipped), TOLD)
    for what, data in _SENT.items():
        yield Poison("XML-RPC", f"sent raw: {what}", partial(_raw_to_rpc, data), TOLD)
    yield Poison("XML-RPC", "300 callers that say nothing", _silent, (Place.NOBODY,))


def _post_rpc(body: bytes, headers: dict[str, str], grip: Grip) -> Put:
    refused, said = grip.post_rpc(body, headers)
    return Put("XML-RPC", refused, said)


def _raw_to_rpc(data: bytes, grip: Grip) -> Put:
    refused, said = grip.raw(grip.rpc_address, data)
    return Put("XML-RPC", refused, said)


def _silent(grip: Grip) -> Put:
    """Open many connections and ask nothing; they are let go at the end of the run."""
    grip.hold(grip.rpc_address, 300)
    return Put("XML-RPC")


# --- pyspider's routes --------------------------------------------------------------------------

_RATES = (
    "nan/nan",
    "inf/inf",
    "-inf/1",
    "-1/-1",
    "1e400/1",
    "1/nan",
    "0/0",
    "fast/slow",
    "1",
    "1/2/3",
    "",
    "1e-320/1",
    "\u0661/\u0662",
)
_STATUSES = ("RUNNING\x00", "JUNK", "", "x" * 100_000, "<script>", "running", "\U0001f600")
_GROUPS = ("\x00", "g" * 5_000_000, "<b>", "delete,lock", "\u202e", ",,,,", "a\r\nb: c")
KEPT = (Place.ANSWER, Place.QUARANTINE, Place.LOG)
HARMLESS = (*KEPT, Place.LISTED)


def _updates() -> Iterator[Poison]:
    for rate in _RATES:
        put = partial(_update, "rate", rate)
        shown = KEPT if "nan" in rate else HARMLESS
        yield Poison("web UI", f"/update rate={rate}", put, shown)
    for field, values in (("status", _STATUSES), ("group", _GROUPS)):
        for value in values:
            put = partial(_update, field, value)
            yield Poison("web UI", f"/update {field}={value[:20]!r}", put, HARMLESS)
    for what, body in {
        "nothing": b"",
        "no name": b"pk=x",
        "another field": b"pk=x&name=script&value=x",
        "no UTF-8": b"pk=%ff%fe&name=rate&value=%ff/%fe",
        "JSON": b'{"pk": 1}',
        "10,000 fields": b"&".join(b"f%d=1" % n for n in range(10_000)),
    }.items():
        put = partial(_ask, "POST", "/update", body, FORM)
        yield Poison("web UI", f"/update with {what}", put, TOLD)


def _update(field: str, value: str, grip: Grip) -> Put:
    project = grip.fresh("updated")
    grip.project_row(project)
    refused, said = grip.form("/update", pk=project, name=field, value=value)
    return Put(project, refused, said)


_ASKED: dict[str, str] = {
    "/task/no:such:task": "a task id of three parts",
    "/task/x": "a task id without a project",
    "/task/" + "x" * 5000 + ":y": "a task id of 5,000 characters",
    "/task/a%00b:c": "a task id with a null byte",
    "/task/..%2f..:x.json": "a task id with a path",
    "/results?project=no%20such": "results of an illegal name",
    "/results?project=x&offset=many": "results from a text on",
    "/results?project=x&limit=-1": "results below zero",
    "/results?project=x&limit=" + "9" * 40: "results of 40 digits",
    "/results?project=%60%3Bx": "results of SQL",
    "/results": "results of nobody",
    "/results/dump/x.exe": "a dump of a foreign kind",
    "/results/dump/%ff.json": "a dump of a name that is no text",
    "/tasks?limit=many": "tasks of a text",
    "/tasks?project=%ff": "tasks of a name that is no text",
    "/active_tasks?limit=nan": "active tasks of NaN",
    "/active_tasks?limit=-5": "active tasks below zero",
    "/debug/" + "x" * 3000: "an editor of 3,000 characters",
    "/debug/a%20b": "an editor of an illegal name",
    "/debug/%00": "an editor of a null byte",
    "/%ff%fe": "a page whose name is no text",
    "/" + "a/" * 4000: "a path of 4,000 parts",
}

_POSTED: dict[str, tuple[str, bytes, dict[str, str]]] = {
    "a run of nobody": ("/run", b"project=", FORM),
    "a run of an illegal name": ("/run", b"project=a%20b", FORM),
    "a run without a name": ("/run", b"", FORM),
    "a script that is no Python": (
        "/debug/tried/run",
        b"webdav_mode=false&script=def%20(&task=%7B%7D",
        FORM,
    ),
    "a script that ends the process": (
        "/debug/tried/run",
        b"webdav_mode=false&script=raise%20SystemExit&task="
        + quote(
            '{"process": {"callback": "on_start"}, "project": "tried", "taskid": "t",'
            ' "url": "data:,x"}'
        ).encode(),
        FORM,
    ),
    "a task that is no JSON": ("/debug/tried/run", b"webdav_mode=false&script=x&task=%7B", FORM),
    "a task nested 100,000 deep": (
        "/debug/tried/run",
        b"webdav_mode=false&script=x&task=" + quote(junk.DEEP_JSON).encode(),
        FORM,
    ),
    "a run without a form": ("/debug/tried/run", b"", FORM),
    "a save of an illegal name": ("/debug/a%20b/save", b"script=x", FORM),
    "a save without a script": ("/debug/tried/save", b"", FORM),
    "a save of a null byte": ("/debug/tri%00ed/save", b"script=x", FORM),
    "an upload that is none": (
        "/update",
        b"--x\r\njunk",
        {"Content-Type": "multipart/form-data; boundary=x"},
    ),
    "an upload without a boundary": ("/update", b"junk", {"Content-Type": "multipart/form-data"}),
}

_WEB_RAW: dict[str, bytes] = {
    **{what: data.replace(b"/RPC2", b"/update") for what, data in _SENT.items()},
    "a cookie of junk": b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: session=\xff\xfe;;==\r\n"
    b"Connection: close\r\n\r\n",
    "a login of junk": b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic \xff\xff=\r\n"
    b"Connection: close\r\n\r\n",
    "a host of junk": b"GET / HTTP/1.1\r\nHost: \x01\xff\r\nConnection: close\r\n\r\n",
}


def _routes() -> Iterator[Poison]:
    answered = (Place.ANSWER, Place.LOG, Place.NOBODY)  # a page for it is an answer as well
    for path, what in _ASKED.items():
        yield Poison("web UI", f"asked for {what}", partial(_ask, "GET", path, None, {}), answered)
    for what, (path, body, headers) in _POSTED.items():
        put = partial(_ask, "POST", path, body, headers)
        yield Poison("web UI", f"posted: {what}", put, answered)
    for what, data in _WEB_RAW.items():
        yield Poison("web UI", f"sent raw: {what}", partial(_raw_to_web, data), answered)


def _ask(method: str, path: str, body: bytes | None, headers: dict[str, str], grip: Grip) -> Put:
    refused, said = grip.web(method, path, body, headers)
    return Put(path[:60], refused, said)


def _raw_to_web(data: bytes, grip: Grip) -> Put:
    refused, said = grip.raw(grip.webui.netloc, data)
    return Put("web UI", refused, said)


# --- the API ------------------------------------------------------------------------------------

_POSTS = (
    "/batches",
    "/batches/none/retry",
    "/dead-letters/replay",
    "/dead-letters/drop",
    "/members/0/drain",
)
_JSONS: dict[str, bytes] = {
    "no JSON": b"{junk",
    "NaN": b'{"priority": NaN, "count": NaN, "incarnation": NaN}',
    "a list": b"[]",
    "a text": b'"x"',
    "nested 100,000 deep": junk.DEEP_JSON,
    "parts of the wrong types": b'{"operation": [], "names": "x", "tags": 7, "all": "perhaps",'
    b' "incarnation": {}, "filter": 7, "arguments": []}',
    "half a surrogate": b'{"operation": "\\ud800", "names": ["\\udfff"], "tags": ["\\ud800"],'
    b' "incarnation": "\\ud800"}',
    "bytes that are no text": b"\xff\xfe\x00",
    "a number of 5,000 digits": b'{"priority": ' + b"9" * 5000 + b"}",
    "20 MB": b'{"operation": "' + b"x" * 20_000_000 + b'"}',
}
_QUERIES = (
    "/projects?offset=-1",
    "/projects?limit=1e99",
    "/projects?limit=NaN",
    "/projects?status=JUNK",
    "/projects?owner=-9",
    "/projects?owner=" + "9" * 400,
    "/projects?sort=`;",
    "/projects?pattern=" + "[" * 3000,
    "/projects/a%20b",
    "/projects/%ff",
    "/projects/" + "x" * 5000,
    "/workload?limit=0",
    "/events?after=x",
    "/events?limit=999999999999",
    "/batches/%00",
    "/batches/" + "x" * 3000,
    "/members/99999999999999999999999",
    "/members/x",
    "/dead-letters?offset=-5",
    "/failures?limit=0",
    "/failures?kinds=x",
    "/failures?status_code=" + "9" * 400,
    "/failures?since=nan",
    "/failures?kind=%00&project=%ff",
    "/failures/tasks?cursor=x",
    "/failures/tasks?cursor=nan%20a%20b",
    "/failures/tasks?cursor=1%20a%20b&limit=99999",
    "/failures/projects?callback=" + "x" * 3000,
    "/assignment/preview?joins=1000000000",
    "/assignment/preview?leaves=x",
    "/no/such/thing",
)


def _api() -> Iterator[Poison]:
    base = "/api/v1"
    for path in _POSTS:
        for what, body in _JSONS.items():
            put = partial(_ask, "POST", base + path, body, JSON)
            yield Poison("API", f"POST {path} of {what}", put, TOLD)
    for query in _QUERIES:
        put = partial(_ask, "GET", base + query, None, {})
        yield Poison("API", f"GET {query[:50]}", put, (*TOLD, Place.NOBODY))
    for method in ("PUT", "PATCH", "DELETE", "TRACE", "JUNK"):
        put = partial(_ask, method, f"{base}/projects", b"x", JSON)
        yield Poison("API", f"{method} /projects", put, TOLD)


# --- WebDAV -------------------------------------------------------------------------------------

_FILES: dict[str, tuple[str, bytes]] = {
    "bytes that are no text": ("dav_bytes.py", b"\xff\xfe\x00def"),
    "nothing": ("dav_empty.py", b""),
    "5 MB": ("dav_large.py", b"#" * HUGE),
    "a script that ends the process": ("dav_exit.py", b"raise SystemExit"),
    "an illegal name": ("a%20b.py", b"x = 1"),
    "a path": ("..%2f..%2fetc%2fpasswd.py", b"x = 1"),
    "a name of 300 characters": ("n" * 300 + ".py", b"x = 1"),
    "a name without its ending": ("noending", b"x = 1"),
    "a null byte": ("a%00b.py", b"x = 1"),
    "a folder that is not there": ("no/such/file.py", b"x = 1"),
}
_DAV_METHODS: dict[str, Callable[[], bytes]] = {
    "MKCOL": lambda: b"",
    "PROPFIND": lambda: b"<a>" * 100_000,
    "PROPPATCH": lambda: b"\xff\xfe",
    "LOCK": lambda: b"<lockinfo>junk",
    "COPY": lambda: b"",
    "MOVE": lambda: b"",
    "DELETE": lambda: b"",
}


def _dav() -> Iterator[Poison]:
    shown = (*TOLD, Place.LISTED, Place.NOBODY)
    for what, (name, body) in _FILES.items():
        put = partial(_ask, "PUT", f"/dav/{name}", body, {})
        yield Poison("WebDAV", f"a file of {what}", put, shown)
    for method, body_of in _DAV_METHODS.items():
        headers = {"Content-Type": "text/xml", "Destination": "http://[::1"}
        put = partial(_ask, method, "/dav/no_such_file.py", body_of(), headers)
        yield Poison("WebDAV", f"{method} of junk", put, shown)
