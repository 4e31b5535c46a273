"""The web UI: its routes, its API and WebDAV."""

import re
import warnings
import xml.sax.saxutils
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import requests
import schemathesis

from tests.fuzz.inputs import FUZZED, Answered, Input, Surface, raw_spares, request_spares
from tests.fuzz.mutate import ODD, mutate_bytes, pick
from tests.fuzz.wire import Reply, exchange, request
from tests.support.api_requests import draw_requests

HTTP = "http"
WEBDAV = "webdav"
ROLES = ("admin",) * 4 + ("operator", "operator", "viewer", "nobody", "session", "wrong", "junk")

Case = tuple[str, str, Mapping[str, str], bytes]
"""Method, path with query, headers and body of a request that is nearly right."""

Headers = list[list[str]]

_TAGS = re.compile(rb"<[^>]*>")


def _judged(reply: Reply) -> Answered:
    if reply.silent:
        return Answered("silence", "neither an answer nor an end of the connection")
    if reply.status == 500:
        told = b" ".join(_TAGS.sub(b" ", reply.body).split())
        return Answered("500", f"status 500: {told[-160:]!r}")
    return Answered(str(reply.status or "closed"))


def _sender(address: str, login: Callable[[str], Mapping[str, str]]) -> Callable[[Input], Answered]:
    def send(what: Input) -> Answered:
        given = login(what.parts["role"])
        if "raw" in what.parts:
            lines = "\r\n".join(f"{name}: {value}" for name, value in given.items())
            raw = what.parts["raw"].replace(b"{host}", address.encode())
            return _judged(exchange(address, raw.replace(b"{login}", lines.encode())))
        known = {name.lower() for name, _ in what.parts["headers"]}
        headers = [
            (name, value.replace("{host}", address)) for name, value in what.parts["headers"]
        ]
        headers += [(name, value) for name, value in given.items() if name.lower() not in known]
        if "host" not in known:
            headers.insert(0, ("Host", address))
        parts = what.parts
        return _judged(
            exchange(address, request(parts["method"], parts["path"], headers, parts["body"]))
        )

    return send


def http_surface(
    address: str,
    login: Callable[[str], Mapping[str, str]],
    cases: Callable[[Random], Case],
) -> Surface:
    """Return the surface of a web UI's routes and API.

    Args:
        address: host and port.
        login: headers that log a role in.
        cases: draws requests to the API, right and wrong ones.
    """

    def draw(chance: Random) -> Input:
        while True:
            case = cases(chance) if chance.random() < 0.5 else pick(chance, _ROUTES)(chance)
            made = _mutated(HTTP, case, chance)
            if _spares(made):
                return made

    return Surface(HTTP, draw, _sender(address, login))


def webdav_surface(address: str, login: Callable[[str], Mapping[str, str]]) -> Surface:
    """Return the surface of a web UI's WebDAV."""

    def draw(chance: Random) -> Input:
        while True:
            made = _mutated(WEBDAV, _dav(chance), chance)
            if _spares(made):
                return made

    return Surface(WEBDAV, draw, _sender(address, login))


def _spares(made: Input) -> bool:
    parts = made.parts
    if "raw" in parts:
        return raw_spares(parts["raw"])
    return request_spares(parts["method"], parts["path"], parts["body"])


def _mutated(surface: str, case: Case, chance: Random) -> Input:
    """Return an input that is a request as it is, or with mutations of one of its parts."""
    method, path, given, body = case
    headers: Headers = [[name, value] for name, value in given.items()]
    role = pick(chance, ROLES)
    if chance.random() < 0.12:
        lines = [("Host", "{host}"), *((name, value) for name, value in headers)]
        raw = request(method, path, lines, body).replace(b"\r\n", b"\r\n{login}\r\n", 1)
        return Input(surface, "HTTP bytes", {"role": role, "raw": mutate_bytes(raw, chance)})
    kind = pick(chance, ("as drawn", "path", "headers", "body", "body"))
    if kind == "path":
        path = _path_bytes(mutate_bytes(path.encode(), chance))
    elif kind == "headers":
        headers.append(list(pick(chance, _HEADERS)))
    elif kind == "body":
        body = mutate_bytes(body, chance)
    parts = {"role": role, "method": method, "path": path, "headers": headers, "body": body}
    return Input(surface, kind, parts)


def _path_bytes(path: bytes) -> str:
    """Return a path without what would end the request line."""
    return quote(path, safe="/%?&=:@;,+!$'()*~.[]{}|\\\"<>^`#")


_HEADERS = (
    ("Cookie", "session=\u2603; pyspider_zk=x.y.z"),
    ("Cookie", "=;;;\x7f"),
    ("Origin", "http://evil.example"),
    ("Referer", "http://[::1"),
    ("Sec-Fetch-Site", "cross-site"),
    ("Host", "evil.example"),
    ("Host", "[::1"),
    ("Content-Type", "application/json; charset=utf-7"),
    ("Content-Type", "application/xml"),
    ("Content-Type", "multipart/form-data; boundary="),
    ("Content-Type", "multipart/form-data; boundary=x"),
    ("Content-Type", "\u2603"),
    ("Content-Encoding", "gzip"),
    ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked"),
    ("Content-Length", "-1"),
    ("Content-Length", "1_0"),
    ("Content-Length", "99999999999999999999"),
    ("Accept", "\u2603/;q=x"),
    ("Accept-Encoding", "gzip;q=nan"),
    ("Accept-Language", "x" * 3000),
    ("Range", "bytes=5-1,x"),
    ("If-None-Match", '"\u2603'),
    ("If-Modified-Since", "soon"),
    ("Expect", "100-continue"),
    ("X-Forwarded-For", "x, \u2603"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Requested-With", "XMLHttpRequest"),
    ("Authorization", "Basic \u2603"),
    ("Authorization", "Basic Og=="),
    ("Authorization", "Basic " + "/" * 3000),
    ("Authorization", "Digest username=x"),
    ("Authorization", "Bearer x"),
)

# --- routes -------------------------------------------------------------------------------------

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_TASK = (
    f'{{"taskid": "t", "project": "{FUZZED}0", "url": "data:,x", '
    '"process": {"callback": "on_start"}, "fetch": {}, "schedule": {}}'
)
_SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        return {"a": 1}
"""


def _odd_text(chance: Random) -> str:
    value = pick(chance, ODD)
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _text(chance: Random, *usual: str) -> str:
    """Return one of the usual texts, or an odd one."""
    return pick(chance, usual) if chance.random() < 0.6 else _odd_text(chance)


def _project(chance: Random) -> str:
    return _text(chance, f"{FUZZED}0", f"{FUZZED}1", f"{FUZZED}none", "no_such")


def _query(chance: Random) -> str:
    names = ("project", "limit", "offset", "status", "callback", "pattern", "sort", "after", "x")
    given = [
        (pick(chance, names), _text(chance, f"{FUZZED}0", "10", "0", "json"))
        for _ in range(chance.randint(0, 3))
    ]
    return f"?{urlencode(given)}" if given else ""


def _page(chance: Random) -> Case:
    project, taskid = (
        quote(_project(chance), safe=""),
        quote(_text(chance, "t", "on_start"), safe=""),
    )
    paths = (
        "/",
        "/queues",
        "/counter",
        "/robots.txt",
        f"/debug/{project}",
        f"/debug/{project}/get",
        "/blank.html",
        f"/task/{project}:{taskid}",
        f"/task/{project}:{taskid}.json",
        "/tasks",
        "/active_tasks",
        "/results",
        f"/results/dump/{project}.{pick(chance, ('json', 'txt', 'csv', 'x'))}",
        f"/static/{project}",
        "/cluster/",
        f"/cluster/{project}",
        "/login/",
        "/api/v1/openapi.json",
    )
    method = pick(chance, ("GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE", "JUNK"))
    return method, pick(chance, paths) + _query(chance), {}, b""


def _update(chance: Random) -> Case:
    field = pick(chance, ("rate", "status", "group", "script", "x"))
    value = _text(chance, "1/3", "RUNNING", "STOP", "g", "delete,lock", "nan/1", "1/2/3")
    form = {"pk": _project(chance), "name": field, "value": value}
    return "POST", "/update", _FORM, urlencode(form).encode()


def _run(chance: Random) -> Case:
    return "POST", "/run", _FORM, urlencode({"project": _project(chance)}).encode()


def _editor(chance: Random) -> Case:
    project = _project(chance)
    form = {
        "webdav_mode": _text(chance, "true", "false"),
        "script": _text(chance, _SCRIPT, "x = 1", "def ("),
        "task": _text(chance, _TASK, "{}", "[]", '{"process": 7}'),
        "is_json": "x",
    }
    if chance.random() < 0.3:
        del form[pick(chance, list(form))]
    action = pick(chance, ("run", "save"))
    return "POST", f"/debug/{quote(project, safe='')}/{action}", _FORM, urlencode(form).encode()


def _log_in(chance: Random) -> Case:
    form = {
        "name": _text(chance, "viewer", "x"),
        "password": _odd_text(chance),
        "next": _project(chance),
    }
    path = pick(chance, ("/login/", "/login/out"))
    return "POST", path + _query(chance), _FORM, urlencode(form).encode()


_ROUTES = (_page,) * 5 + (_update, _run, _editor, _log_in)

# --- WebDAV -------------------------------------------------------------------------------------

_DAV_METHODS = (
    "PROPFIND",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "PUT",
    "PUT",
    "GET",
    "HEAD",
    "DELETE",
    "OPTIONS",
    "POST",
    "REPORT",
    "SEARCH",
    "ACL",
)
_DAV_XML = (
    '<?xml version="1.0"?><propfind xmlns="DAV:"><allprop/></propfind>',
    '<?xml version="1.0"?><propfind xmlns="DAV:"><propname/></propfind>',
    '<?xml version="1.0"?><propfind xmlns="DAV:"><prop><getcontentlength/><x:y xmlns:x="z"/></prop>'
    "</propfind>",
    '<?xml version="1.0"?><propertyupdate xmlns="DAV:"><set><prop><getlastmodified>x'
    "</getlastmodified></prop></set><remove><prop><a/></prop></remove></propertyupdate>",
    '<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype>'
    "<write/></locktype><owner><href>ann</href></owner></lockinfo>",
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><propfind xmlns="DAV:">&b;</propfind>',
    "<a/>",
    "",
)
_DAV_HEADERS: Mapping[str, Sequence[str]] = {
    "Depth": ("0", "1", "infinity", "-1", "x", "1,noroot"),
    "Destination": (
        f"http://{{host}}/dav/{FUZZED}2.py",
        f"/dav/{FUZZED}2.py",
        f"/dav/{FUZZED}2.py/x",
        "http://[::1",
        "http://evil.example/dav/x.py",
        f"/dav/..%2f{FUZZED}2.py",
        "\u2603",
        "",
    ),
    "Overwrite": ("T", "F", "x", ""),
    "If": ("(<opaquelocktoken:x>)", "(Not <DAV:no-lock>)", '<x> (["y"])', "((((", "(<", ""),
    "Lock-Token": ("<opaquelocktoken:x>", "x", "<", ""),
    "Timeout": ("Second-100", "Infinite", "Second-x", "Second-" + "9" * 40, "x"),
    "If-Match": ('"x"', "*", "x"),
    "If-None-Match": ("*", '"x"'),
    "Range": ("bytes=0-1", "bytes=-", "bytes=9-1", "x"),
    "Content-Range": ("bytes 0-1/2", "x"),
    "Content-Type": ("text/xml", "application/xml; charset=x", "\u2603"),
    "Content-Encoding": ("gzip",),
    "Translate": ("f",),
    "User-Agent": ("Microsoft-WebDAV-MiniRedir/6", "davfs2/1.5"),
}


def _dav(chance: Random) -> Case:
    method = pick(chance, _DAV_METHODS)
    name = pick(
        chance,
        (
            f"{FUZZED}0.py",
            f"{FUZZED}1.py",
            f"{FUZZED}new.py",
            f"{FUZZED}none",
            f"{FUZZED}0.py/",
            f"{FUZZED}0.py/x",
            f"{FUZZED} a.py",
            f"{FUZZED}\u2603.py",
            "",
            "/",
            "..",
            f"{FUZZED}0.py;x",
            f"{FUZZED}{'n' * 300}.py",
            f"{FUZZED}{_odd_text(chance)}.py",
        ),
    )
    path = f"/dav/{quote(name)}" + (_query(chance) if chance.random() < 0.1 else "")
    names = chance.sample(sorted(_DAV_HEADERS), chance.randint(0, 4))
    headers = {name: pick(chance, _DAV_HEADERS[name]) for name in names}
    if method == "PUT":
        return method, path, headers, pick(chance, (_SCRIPT, "x = 1", "", "\x00", "def (")).encode()
    text = pick(chance, _DAV_XML)
    if chance.random() < 0.1:
        text = text.replace("DAV:", xml.sax.saxutils.escape(_odd_text(chance)))
    return method, path, headers, text.encode()


AT_ONCE = 25  # requests that are drawn for an operation at a time
REUSED = 20  # times that a drawn request is used; the mutations differ each time

_BODY = f'{{"operation": "rate", "names": ["{FUZZED}0"], "arguments": {{"rate": 5, "burst": 5}}}}'
_JOB = ("POST", "/api/v1/batches", {"Content-Type": "application/json"}, _BODY.encode())


def api_cases(url: str) -> Callable[[Random], Case]:
    """Return what draws requests to the API at this URL of a web UI.

    A document that schemathesis reads makes them; a batch is drawn whenever the former is used up.
    """
    document = schemathesis.openapi.from_url(f"{url}api/v1/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    stock: list[Case] = []

    def draw(chance: Random) -> Case:
        if not stock:
            made = _batch(pick(chance, operations), chance.randrange(2**32), url) or [_JOB]
            stock.extend(made * REUSED)
            chance.shuffle(stock)
        return stock.pop()

    return draw


def _batch(operation: Any, number: int, url: str) -> list[Case]:
    made: list[Case] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of schemathesis's own strategies
        draw_requests(operation, number, AT_ONCE, lambda case: made.append(_case(case, url)))
    return made


def _case(case: Any, url: str) -> Case:
    sent = case.as_transport_kwargs(base_url=f"{url}api/v1")
    known = {"method", "url", "headers", "params", "data", "json", "cookies", "files"}
    asked = requests.Request(**{key: value for key, value in sent.items() if key in known})
    ready = asked.prepare()
    body = ready.body or b""
    headers = {
        str(name): value if isinstance(value, str) else value.decode("latin-1")
        for name, value in ready.headers.items()
        if name.lower() not in ("content-length", "host", "connection", "user-agent")
    }
    raw = body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass")
    return str(ready.method), ready.path_url, headers, raw
