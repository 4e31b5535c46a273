"""Every port of a composed cluster, tried from inside of its network.

Usage: ``python -m tests.deploy.inside.doors PROJECT SCHEDULER...``, the schedulers by their full
names. Prints a line of JSON for each attempt. Who has no keys is a stranger, and tries what
strangers do; who has them tries the same doors, and each must open.
"""

import base64
import functools
import http.client
import itertools
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xmlrpc.client import Fault, ProtocolError, ServerProxy

import psycopg

from pyspider_zk.config import Settings
from pyspider_zk.rpc.client import posted
from tests.attack.doors import OPEN, ROUTES

KEYS = Path("/run/cluster")
PATIENCE = 5.0  # seconds for an answer
ZOOKEEPERS = ("zookeeper1", "zookeeper2", "zookeeper3")
PROCESSES = ("scheduler", "processor", "fetcher", "result-worker", "renderer", "webui")
REDIS_SAYS = (b"+PONG", b"+OK", b"*", b"$")

Attempt = Callable[[], bool]
"""Whether it got in."""


@dataclass(frozen=True)
class Door:
    """One way to a port.

    Attributes:
        name: of the door, the same for strangers and for who has the keys.
        how: what is tried.
        attempt: tries it; an ``OSError`` or an error of the protocol is a door that stays shut.
    """

    name: str
    how: str
    attempt: Attempt


def doors(project: str, schedulers: list[str]) -> Iterator[Door]:
    """Yield the attempts of whoever runs this."""
    yield from _zookeeper()
    yield from _redis()
    yield from _postgresql()
    yield from _xmlrpc(project, schedulers)
    yield from _renderer(schedulers[0].partition(".")[2])
    yield from _webui(project)
    yield from _metrics()
    yield from _prometheus()


def _zookeeper() -> Iterator[Door]:
    for how, context in _contexts():
        for host in ZOOKEEPERS:
            yield Door(host, how, lambda c=context, h=host: b"Mode:" in _ask(h, 2281, b"srvr", c))
            if not KEYS.exists():
                for port in (2888, 3888):  # only the servers have keys to these
                    yield Door(host, how, lambda c=context, h=host, p=port: _talks(h, p, c))


def _redis() -> Iterator[Door]:
    login = b""
    if KEYS.exists():
        login = b"AUTH crawl %s\r\n" % (urlsplit(_key("message-queue")).password or "").encode()
    question = login + b"PING\r\nKEYS *\r\nSET door open\r\nDEL door\r\n"
    for how, context in _contexts():

        def attempt(context: ssl.SSLContext | None = context) -> bool:
            answer = _ask("redis", 6379, question, context)
            return any(line.startswith(REDIS_SAYS) for line in answer.splitlines())

        yield Door("redis", how, attempt)


def _postgresql() -> Iterator[Door]:
    if KEYS.exists():
        url = _key("taskdb").replace("sqlalchemy+postgresql+taskdb", "postgresql")
        yield Door("postgresql", "its URL", lambda: _selects(url))
        return
    for user in ("crawl", "postgres"):
        for mode in ("disable", "require"):
            for password in ("", "crawl"):
                told = f"host=postgresql dbname=taskdb user={user} sslmode={mode}"
                told += f" password='{password}' connect_timeout={PATIENCE:.0f}"
                yield Door("postgresql", told, lambda told=told: _selects(told))


def _xmlrpc(project: str, schedulers: list[str]) -> Iterator[Door]:
    calls: dict[str, tuple[object, ...]] = {"size": ()}
    if not KEYS.exists():
        task = {"taskid": "door", "project": project, "url": "data:,door"}
        more = {"counter": ("5m", "sum"), "webui_update": (), "newtask": (task,), "_quit": ()}
        calls |= {**more, "submit_operation": ("delete", {"names": [project]}, {}, "", "door")}
    login = f"door:{_key('secret')}@" if KEYS.exists() else ""
    for host in schedulers:
        for name, words in calls.items():
            url = f"https://{login}{host}:23333/"
            yield Door("xmlrpc", f"{name} {host}", lambda u=url, n=name, w=words: _calls(u, n, w))


def _renderer(domain: str) -> Iterator[Door]:
    address = f"renderer.{domain}:25555"
    secret = _key("secret") if KEYS.exists() else ""
    post = posted(b'{"url": "door:"}', address, Settings(secret=secret))
    headers = {"Host": address, "Content-Length": len(post["body"]), **post["headers"]}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    question = f"POST / HTTP/1.0\r\n{lines}\r\n".encode() + post["body"]
    for how, context in _contexts():

        def attempt(context: ssl.SSLContext | None = context) -> bool:
            return b"'door:' cannot be fetched" in _ask("renderer", 25555, question, context)

        yield Door("renderer", how, attempt)


def _webui(project: str) -> Iterator[Door]:
    if KEYS.exists():
        yield Door("webui", "login", lambda: _requests("GET", "/api/v1/overview"))
        return
    for route, needs in ROUTES.items():
        if needs != OPEN:
            path = re.sub(r"<[^>]*project>|<string:name>", project, route)
            path = re.sub(r"<[^>]*>", "0", path)
            for method in ("GET", "POST", "PUT", "DELETE", "PROPFIND"):
                told = f"{method} {path}"
                yield Door("webui", told, lambda m=method, p=path: _requests(m, p))


def _metrics() -> Iterator[Door]:
    tokens = (_key("metrics"),) if KEYS.exists() else ("", "metrics", "crawl")
    for how, context in _contexts():
        for service in PROCESSES:
            for host, token in itertools.product(_addresses(service), tokens):
                attempt = functools.partial(_scrapes, host, token, context)
                yield Door(f"metrics of {service}", f"{how} {host}", attempt)


def _scrapes(host: str, token: str, context: ssl.SSLContext | None) -> bool:
    """Return whether metrics are told; to strangers anything but a refusal is too much."""
    question = f"GET /metrics HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n"
    answer = _ask(host, 9464, question.encode(), context)
    told = b"pyspider_zk_build_info" in answer
    if KEYS.exists() or told:
        return told
    is_refusal = answer.split()[1:2] in ([b"401"], [b"403"]) or b"TLS only" in answer
    return answer.startswith(b"HTTP/") and not is_refusal


def _addresses(service: str) -> list[str]:
    """Return the addresses of a service's containers."""
    return sorted({each[4][0] for each in socket.getaddrinfo(service, None, socket.AF_INET)})


def _prometheus() -> Iterator[Door]:
    if KEYS.exists():
        login = {"Authorization": _basic("admin", os.environ["PROMETHEUS"])}
        yield Door("prometheus", "login", lambda: _gets("/api/v1/query?query=up", login))
        return
    for path in ("/", "/metrics", "/-/ready", "/api/v1/query?query=up", "/api/v1/status/config"):
        for headers in ({}, {"Authorization": _basic("admin", "admin")}):
            told = f"{path} {'admin' if headers else ''}"
            yield Door("prometheus", told, lambda p=path, h=headers: _gets(p, h))


def _gets(path: str, headers: dict[str, str]) -> bool:
    with closing(http.client.HTTPConnection("prometheus", 9090, timeout=PATIENCE)) as link:
        link.request("GET", path, headers=headers)
        return link.getresponse().status not in (401, 403)


def _basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _contexts() -> Iterator[tuple[str, ssl.SSLContext | None]]:
    """Yield the ways to connect: strangers believe any server."""
    if not KEYS.exists():
        yield "plain", None
        yield "TLS", _context()
        with tempfile.TemporaryDirectory() as folder:
            own = _context()
            own.load_cert_chain(_own_certificate(Path(folder)))
        yield "TLS with a certificate of its own", own
        return
    known = _context()
    known.load_cert_chain(KEYS / "client.pem")
    yield "TLS with the cluster's certificate", known


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _own_certificate(folder: Path) -> Path:
    made = folder / "own.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-subj", "/CN=crawl"]
    command += ["-keyout", str(made), "-out", str(folder / "certificate")]
    subprocess.run(command, check=True, capture_output=True)
    made.write_bytes(made.read_bytes() + (folder / "certificate").read_bytes())
    return made


def _ask(host: str, port: int, question: bytes, context: ssl.SSLContext | None) -> bytes:
    """Return everything that is said to one question, until the end or for some seconds."""
    told = b""
    with _connected(host, port, context) as link:
        link.sendall(question)
        try:
            while more := link.recv(65536):
                told += more
        except TimeoutError:
            pass  # it says no more
    return told


def _talks(host: str, port: int, context: ssl.SSLContext | None) -> bool:
    """Return whether an ensemble's port says anything that is no alert of TLS."""
    told = _ask(host, port, b"\x80" * 64, context)
    return bool(told) and not told.startswith(b"\x15")


def _connected(host: str, port: int, context: ssl.SSLContext | None) -> socket.socket:
    link = socket.create_connection((host, port), PATIENCE)
    return context.wrap_socket(link, server_hostname=host) if context else link


def _selects(told: str) -> bool:
    with psycopg.connect(told) as database:
        return database.execute("SELECT 1").fetchone() == (1,)


def _calls(url: str, name: str, words: tuple[object, ...]) -> bool:
    proxy = ServerProxy(url, allow_none=True, context=_context())
    with proxy as scheduler, suppress(Fault):  # a call at fault was let in, too
        getattr(scheduler, name)(*words)
    return True


def _requests(method: str, path: str) -> bool:
    """Return whether the answer is neither a refusal nor the way to the login."""
    headers = {"Host": "localhost:5000"}
    if KEYS.exists():
        headers["Authorization"] = _basic("admin", os.environ["ADMIN"])
    with closing(http.client.HTTPConnection("webui", 5000, timeout=PATIENCE)) as link:
        link.request(method, path, headers=headers)
        answer = link.getresponse()
        to_login = answer.status == 302 and "/login" in (answer.headers["Location"] or "")
        return not to_login and answer.status not in (401, 403)


def _key(name: str) -> str:
    return (KEYS / name).read_text(encoding="utf-8").strip()


def main(project: str, *schedulers: str) -> None:
    """Try every door, and tell what came of it."""
    for door in doors(project, list(schedulers)):
        try:
            opened, told = door.attempt(), ""
        except (OSError, ProtocolError, psycopg.Error, http.client.HTTPException) as error:
            opened, told = False, f"{type(error).__name__}: {error}"[:200]
        line = {"door": door.name, "how": door.how, "opened": opened, "told": told}
        print(json.dumps(line), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
