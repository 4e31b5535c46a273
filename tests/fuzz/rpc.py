"""XML-RPC: methods, arguments, XML and HTTP of the schedulers."""

import gzip
import re
import secrets
import time
import xmlrpc.client
from base64 import b64encode
from collections.abc import Sequence
from random import Random
from typing import Any

from pyspider_zk.rpc.proof import Call, Prover, digest
from tests.fuzz.inputs import FUZZED, Answered, Input, Surface, call_spares, raw_spares
from tests.fuzz.mutate import ODD, mutate_bytes, mutate_value, pick
from tests.fuzz.wire import Reply, exchange, request

NAME = "xmlrpc"
LOGINS = ("basic",) * 40 + ("proof",) * 30 + ("two", "two", "none", "none", "wrong", "junk")
"""Few wrong ones: who does not know the secret is held up for a second."""
_TASK: dict[str, Any] = {
    "taskid": "t1",
    "project": f"{FUZZED}0",
    "url": "data:,x",
    "schedule": {"priority": 1, "age": 5, "retries": 1, "itag": "a", "exetime": 0},
    "fetch": {"method": "GET", "headers": {"a": "b"}, "timeout": 5, "save": {"a": [1]}},
    "process": {"callback": "on_start"},
}
_SELECTION = {"names": [f"{FUZZED}1"], "pattern": f"{FUZZED}*", "status": "RUNNING"}

USUAL: dict[str, Sequence[Any]] = {
    "size": (),
    "counter": ("5m", "sum"),
    "newtask": (_TASK,),
    "send_task": (_TASK,),
    "update_project": (),
    "get_active_tasks": (f"{FUZZED}0", 10),
    "get_projects_pause_status": (),
    "webui_update": (),
    "quarantine": (),
    "project_numbers": ([f"{FUZZED}0"],),
    "project_history": (f"{FUZZED}0",),
    "throughput": (),
    "drain": (7,),  # one too many: without any it ends the member
    "submit_operation": ("rate", _SELECTION, {"rate": 5, "burst": 5}, "ann", "batch", 5, ""),
    "plan_operation": ("stop", _SELECTION, {}),
    "get_batch": ("batch",),
    "list_batches": (0, 10),
    "cancel_batch": ("batch", "ann"),
    "retry_batch": ("batch", "ann"),
    "list_projects": (_SELECTION, "name", 0, 10),
    "list_events": (0, 10),
    "_quit": (),
    "system.listMethods": (),
    "system.methodHelp": ("size",),
    "system.methodSignature": ("size",),
    "system.multicall": ([{"methodName": "size", "params": []}],),
}
"""Methods with arguments that are right, or nearly so."""

_ELEMENTS = (
    "<int>%s</int>",
    "<i8>%s</i8>",
    "<double>%s</double>",
    "<boolean>%s</boolean>",
    "<dateTime.iso8601>%s</dateTime.iso8601>",
    "<base64>%s</base64>",
    "<nil/>%s",
    "<string>%s</string>",
    "<array><data><value>%s</value></data></array>",
    "<struct><member><name>a</name><value>%s</value></member></struct>",
    "<struct><member><value>%s</value></member></struct>",
    "<array>%s</array>",
    "<ex:nil>%s</ex:nil>",
    "<biginteger>%s</biginteger>",
    "<bigdecimal>%s</bigdecimal>",
    "<unknown>%s</unknown>",
)
_CALLERS = re.compile(r"^<class 'Exception'>:method .* is not supported$")
"""What the standard library says of a method that there is not: it has no code for that."""

_TEXTS = (
    "",
    "1",
    "-1",
    "x",
    "9" * 400,
    "1e400",
    "NaN",
    "2",
    "19980717T14:08:55",
    "&#65;",
    "\u2603",
)


def surface(addresses: Sequence[str], names: Sequence[str], secret: str) -> Surface:
    """Return the surface of members at these addresses, which have these methods."""

    def draw(chance: Random) -> Input:
        while True:
            made = pick(chance, _KINDS)(chance, names)
            if made.kind == "HTTP bytes":
                spares = raw_spares(made.parts["raw"])
            else:
                spares = call_spares(made.parts["body"])
            if spares:
                return made

    def send(what: Input) -> Answered:
        address = addresses[what.parts["member"] % len(addresses)]
        if "raw" in what.parts:
            login = _basic(secret).encode()
            raw = what.parts["raw"].replace(b"{host}", address.encode()).replace(b"{login}", login)
            return judged(exchange(address, raw))
        body = what.parts["body"]
        headers = [("Host", address), *map(tuple, what.parts["headers"])]
        headers += _login(what.parts["login"], secret, address, body)
        return judged(exchange(address, request("POST", "/RPC2", headers, body)))

    return Surface(NAME, draw, send)


def judged(reply: Reply) -> Answered:
    """Return what an answer means. A fault that names no fault of the caller's is the server's."""
    if reply.silent:
        return Answered("silence", "neither an answer nor an end of the connection")
    if reply.status != 200:
        fault = f"status {reply.status}: {reply.body[:200]!r}" if reply.status == 500 else ""
        return Answered(str(reply.status or "closed"), fault)
    try:
        packed = reply.body[:2] == b"\x1f\x8b"
        xmlrpc.client.loads(gzip.decompress(reply.body) if packed else reply.body)
    except xmlrpc.client.Fault as fault:
        return _judged_fault(fault)
    except Exception as error:
        return Answered("no XML-RPC", f"{error!r}: {reply.body[:200]!r}")
    return Answered("value")


def _judged_fault(fault: xmlrpc.client.Fault) -> Answered:
    """Return what a fault means: the product's own have the codes of HTTP."""
    kind = f"fault {fault.faultCode}"
    if fault.faultCode == 1 and _CALLERS.search(fault.faultString):
        return Answered(f"{kind}, the caller's")
    if 400 <= fault.faultCode < 500 or fault.faultCode == 503:
        return Answered(kind)
    return Answered(kind, f"{kind}: {fault.faultString:.300}")


# --- kinds of input -----------------------------------------------------------------------------


def _method(chance: Random, names: Sequence[str]) -> tuple[str, Sequence[Any]]:
    method = pick(chance, [*names, *USUAL])
    return method, USUAL.get(method, USUAL.get(method.removeprefix("local_"), ()))


def _call(chance: Random, names: Sequence[str]) -> Input:
    method, usual = _method(chance, names)
    made = mutate_value(list(usual), chance) if usual else []
    given = made if isinstance(made, list) else [made]
    if chance.random() < 0.15:
        given = [*given, *(pick(chance, ODD) for _ in range(chance.randint(1, 9)))]
    return _input("call", chance, _body(method, given))


def _xml(chance: Random, names: Sequence[str]) -> Input:
    method, usual = _method(chance, names)
    return _input("XML bytes", chance, mutate_bytes(_body(method, usual), chance))


def _elements(chance: Random, names: Sequence[str]) -> Input:
    """Make a call of elements that are not put together as they should be."""
    method, _ = _method(chance, names)
    text = pick(chance, _TEXTS)
    for _ in range(chance.randint(1, 6)):
        text = pick(chance, _ELEMENTS) % text
    params = f"<param><value>{text}</value></param>" * chance.randint(1, 3)
    call = f"<methodCall><methodName>{method}</methodName><params>{params}</params></methodCall>"
    return _input("XML elements", chance, call.encode())


def _http(chance: Random, names: Sequence[str]) -> Input:
    method, usual = _method(chance, names)
    headers = [("Host", "{host}"), ("Content-Type", "text/xml"), ("Authorization", "{login}")]
    headers += [pick(chance, _HEADERS)]
    raw = request("POST", "/RPC2", headers, _body(method, usual))
    parts = {"member": chance.randrange(3), "raw": mutate_bytes(raw, chance)}
    return Input(NAME, "HTTP bytes", parts)


_KINDS = (_call,) * 5 + (_xml,) * 3 + (_elements,) * 2 + (_http,) * 2

_HEADERS = (
    ("Accept-Encoding", "gzip"),
    ("Accept-Encoding", "gzip;q=x"),
    ("Content-Encoding", "gzip"),
    ("Content-Encoding", "br"),
    ("Transfer-Encoding", "chunked"),
    ("Origin", "http://evil.example"),
    ("Expect", "100-continue"),
    ("Connection", "keep-alive"),
    ("X-\u2603", "\u2603"),
    ("Content-Length", "-5"),
)


def _input(kind: str, chance: Random, body: bytes) -> Input:
    headers = [["Content-Type", "text/xml"]]
    if chance.random() < 0.1:
        headers.append(list(pick(chance, _HEADERS)))
    if chance.random() < 0.03:
        headers[0][1] = pick(chance, ("text/plain", "", "text/xml; charset=utf-7", "text/html"))
    member, login = chance.randrange(3), pick(chance, LOGINS)
    return Input(NAME, kind, {"member": member, "login": login, "headers": headers, "body": body})


def _body(method: str, given: Sequence[Any]) -> bytes:
    """Return a call; what has no form in XML-RPC comes as text."""
    try:
        text = xmlrpc.client.dumps(tuple(given), method, allow_none=True)
    except (OverflowError, TypeError, RecursionError):
        text = xmlrpc.client.dumps(tuple(map(repr, given)), method, allow_none=True)
    return text.encode("utf-8", "surrogatepass")


# --- logins -------------------------------------------------------------------------------------


def _login(kind: str, secret: str, address: str, body: bytes) -> list[tuple[str, str]]:
    if kind == "none":
        return []
    if kind == "two":
        return [("Authorization", _basic(secret)), ("Authorization", "Basic !!")]
    known = {
        "basic": _basic(secret),
        "wrong": _basic("x" * 40),
        "junk": "PyspiderZk time=x&=&proof",
    }
    return [("Authorization", known.get(kind) or _proof(secret, address, body))]


def _basic(secret: str) -> str:
    return f"Basic {b64encode(f'ann:{secret}'.encode()).decode()}"


def _proof(secret: str, address: str, body: bytes) -> str:
    """Prove the call; it holds once and for minutes, so it is made when the input is sent."""
    call = Call(address, int(time.time()), secrets.token_hex(16), "ann", digest(body))
    return Prover(secret).header(call)
