"""The hostile site and the healthy one: ``python -m tests.hostile.site``.

Prints a line of JSON: the URL of each kind of page. Whoever wants the healthy site undisturbed runs
another one. Sends raw bytes, since no HTTP library would send most of them.
"""

import argparse
import json
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

from tests.hostile.kinds import KINDS, HostileKind, HostileRequest
from tests.hostile.parts import Pieces, page

LONGEST_HEAD = 2**16
_KINDS = {kind.name: kind for kind in KINDS}
_PLACE = re.compile(rb"GET /([^/? ]*)([^ ]*) ")


def healthy(project: str, pages: int, place: int) -> bytes:
    """Return a page of a tree: each has one page that links to it."""
    below = [each for each in (2 * place + 1, 2 * place + 2) if each < pages]
    links = "".join(f'<a href="/healthy/{project}/{pages}/{each}">{each}</a>' for each in below)
    return f"<title>page {place}</title>{links}".encode()


class RawSite(ThreadingTCPServer):
    """A site on one port. Threads: one for each connection.

    Args:
        robots: whose robots.txt it has; None: it has none.
    """

    daemon_threads = True
    request_queue_size = 256  # a burst must not wait for dropped connections

    def __init__(self, host: str, name: str, cluster: str, robots: HostileKind | None) -> None:
        super().__init__((host, 0), RawAnswer)
        self.url = f"http://{name}:{self.server_address[1]}"
        self._cluster = cluster
        self._robots = robots
        self._asked: Counter[str] = Counter()

    def pieces(self, name: str, path: str) -> Pieces:
        """Return what is sent for a path: its first part, and the rest."""
        asked = HostileRequest(self.url, self._cluster, path)
        if name == "robots.txt" and self._robots and self._robots.robots:
            return self._robots.robots(asked)
        if name in _KINDS:
            return _KINDS[name].answer(asked)
        if name == "healthy":
            self._asked[path] += 1
            project, pages, place = path.strip("/").split("/")
            return page(healthy(project, int(pages), int(place)))
        if name == "asked":
            return page(json.dumps(self._asked), kind="application/json")
        return page(b"<title>fine</title>", status="200 OK" if name == "fine" else "404 No")


class RawAnswer(BaseRequestHandler):
    """Answers one request."""

    server: RawSite
    request: socket.socket

    def handle(self) -> None:
        with suppress(OSError):  # who asked has heard enough
            found = _PLACE.match(self._head())
            name, path = (each.decode("latin-1") for each in found.groups()) if found else ("", "")
            for piece in self.server.pieces(name, path):
                if isinstance(piece, bytes):
                    self.request.sendall(piece)
                else:
                    _rest(self.request, piece)
            self.request.shutdown(socket.SHUT_WR)
            self.request.settimeout(5)
            while self.request.recv(LONGEST_HEAD):  # closed at once, what was sent could be lost
                pass

    def _head(self) -> bytes:
        told = b""
        while b"\r\n\r\n" not in told and (more := self.request.recv(LONGEST_HEAD)):
            told += more
        return told


def _rest(link: socket.socket, seconds: float) -> None:
    """Send nothing for a time, or until the other side is gone."""
    link.settimeout(seconds)
    with suppress(TimeoutError):
        if not link.recv(1):
            raise ConnectionResetError
    link.settimeout(None)


def _sites(*where: str) -> Iterator[tuple[str, RawSite]]:
    plain = RawSite(*where, None)
    for kind in KINDS:
        yield kind.name, RawSite(*where, kind) if kind.robots else plain


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.site", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--name", default="127.0.0.1", help="by which others call it")
    parser.add_argument("--cluster", default="http://127.0.0.1:1", help="URL of a cluster's port")
    asked = parser.parse_args()
    sites = dict(_sites(asked.host, asked.name, asked.cluster))
    for kind in KINDS:  # what is compressed is so at once
        kind.answer(HostileRequest("", "", ""))
    for site in set(sites.values()):
        threading.Thread(target=site.serve_forever, daemon=True).start()
    sys.stdout.write(json.dumps({name: f"{site.url}/{name}" for name, site in sites.items()}))
    sys.stdout.write("\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
