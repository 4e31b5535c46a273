"""The hostile site and the healthy one: ``python -m tests.hostile.site``.

Prints a line of JSON: the URL of each kind of page. Whoever wants the healthy site undisturbed runs
another one. Sends raw bytes, since no HTTP library would send most of them. With a port given
those that need one of their own follow it.
"""

import argparse
import json
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count

from tests.hostile.kinds import KINDS, HostileKind, HostileRequest
from tests.hostile.parts import Pieces, page

LONGEST_HEAD = 2**16
_PLACE = re.compile(rb"GET /([^/? ]*)([^ ]*) ")


def healthy(project: str, pages: int, place: int) -> bytes:
    """Return a page of a tree: each has one page that links to it."""
    below = [each for each in (2 * place + 1, 2 * place + 2) if each < pages]
    links = "".join(f'<a href="/healthy/{project}/{pages}/{each}">{each}</a>' for each in below)
    return f"<title>page {place}</title>{links}".encode()


class RawSite:
    """A site on one port. Threads: one for each connection.

    Args:
        robots: whose robots.txt it has; None: it has none.
    """

    def __init__(
        self, address: tuple[str, int], name: str, cluster: str, robots: HostileKind | None
    ) -> None:
        self._listener = socket.create_server(address, backlog=256)
        self.url = f"http://{name}:{self._listener.getsockname()[1]}"
        self._kinds = {kind.name: kind for kind in KINDS}
        self._cluster = cluster
        self._robots = robots
        self._asked: Counter[str] = Counter()

    def serve(self) -> None:
        """Answer for ever."""
        while True:
            link, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        with link, suppress(OSError):  # who asked has heard enough
            found = _PLACE.match(_head(link))
            name, path = (each.decode("latin-1") for each in found.groups()) if found else ("", "")
            for piece in self._pieces(name, path):
                if isinstance(piece, bytes):
                    link.sendall(piece)
                else:
                    _rest(link, piece)
            link.shutdown(socket.SHUT_WR)
            link.settimeout(5)
            while link.recv(LONGEST_HEAD):  # closed at once, what was sent could be lost
                pass

    def _pieces(self, name: str, path: str) -> Pieces:
        asked = HostileRequest(self.url, self._cluster, path)
        if name == "robots.txt" and self._robots and self._robots.robots:
            return self._robots.robots(asked)
        if name in self._kinds:
            return self._kinds[name].answer(asked)
        if name == "healthy":
            self._asked[path] += 1
            project, pages, place = path.strip("/").split("/")
            return page(healthy(project, int(pages), int(place)))
        if name == "asked":
            return page(json.dumps(self._asked), kind="application/json")
        return page(b"<title>fine</title>", status="200 OK" if name == "fine" else "404 No")


def _head(link: socket.socket) -> bytes:
    """Read a request's head."""
    told = b""
    while b"\r\n\r\n" not in told and (more := link.recv(LONGEST_HEAD)):
        told += more
    return told


def _rest(link: socket.socket, seconds: float) -> None:
    """Send nothing for a time, or until the other side is gone."""
    link.settimeout(seconds)
    with suppress(TimeoutError):
        if not link.recv(1):
            raise ConnectionResetError
    link.settimeout(None)


def _sites(host: str, name: str, port: int, cluster: str) -> Iterator[tuple[str, RawSite]]:
    ports = count(port) if port else iter(lambda: 0, 1)
    plain = RawSite((host, next(ports)), name, cluster, None)
    for kind in KINDS:
        own = RawSite((host, next(ports)), name, cluster, kind) if kind.robots else plain
        yield kind.name, own


def begun(host: str, name: str, port: int, cluster: str) -> Mapping[str, str]:
    """Begin to serve; return the URL of each kind."""
    sites = dict(_sites(host, name, port, cluster))
    for site in set(sites.values()):
        threading.Thread(target=site.serve, daemon=True).start()
    return {kind: f"{site.url}/{kind}" for kind, site in sites.items()}


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.site", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--name", default="127.0.0.1", help="by which others call it")
    parser.add_argument("--port", type=int, default=0, help="the first one; 0: any")
    parser.add_argument("--cluster", default="http://127.0.0.1:1", help="URL of a cluster's port")
    asked = parser.parse_args()
    found = begun(asked.host, asked.name, asked.port, asked.cluster)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
