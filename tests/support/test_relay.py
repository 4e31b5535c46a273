"""The relay itself: a wire that can be cut."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from tests.support.relay import Relay

SOON = 5.0  # seconds


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1000):
            self.request.sendall(data)


@pytest.fixture
def relay() -> Iterator[Relay]:
    """Give a relay before a server that says what it is told."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with Relay(server.server_address[1]) as made:
            yield made
        server.shutdown()
        thread.join()


def _client(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), SOON)


def test_it_passes_on_what_it_gets(relay: Relay) -> None:
    with _client(relay) as client:
        client.sendall(b"word")

        assert client.recv(10) == b"word"


def test_while_it_is_cut_there_is_no_answer_and_no_end(relay: Relay) -> None:
    with _client(relay) as client:
        client.sendall(b"before")
        assert client.recv(10) == b"before"
        with relay.cut():
            _ask_in_vain(client)


def test_afterwards_old_connections_are_gone_and_new_ones_work(relay: Relay) -> None:
    with _client(relay) as old:
        old.sendall(b"before")
        assert old.recv(10) == b"before"
        with relay.cut():
            pass

        assert old.recv(10) == b""
    with _client(relay) as new:
        new.sendall(b"word")

        assert new.recv(10) == b"word"


def test_where_a_reply_is_lost_the_connection_ends(relay: Relay) -> None:
    with _client(relay) as client:
        client.sendall(b"before")
        assert client.recv(10) == b"before"
        with relay.losing_replies():
            client.sendall(b"word")

            assert _rest_of(client) == b""


def _ask_in_vain(client: socket.socket) -> None:
    """Say something that no answer comes to, nor an end of the connection."""
    client.sendall(b"word")
    client.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.recv(10)


def _rest_of(client: socket.socket) -> bytes:
    try:
        return client.recv(10)
    except ConnectionResetError:
        return b""
