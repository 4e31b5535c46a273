"""Steady questions to one scheduler that make its threads ask ZooKeeper.

kazoo notices a dead link by a ping that comes back with no answer, and it pings only while
nothing else is sent: whoever asks all the time hides it.
"""

import base64
import socket
import threading
import xmlrpc.client
from contextlib import ExitStack, suppress

from tests.chaos.services import SECRET

GAP = 0.2
"""Seconds between two questions."""

_QUESTION = xmlrpc.client.dumps((0, 1), "list_events").encode()
_HEAD = (
    "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: text/xml\r\nAuthorization: Basic {}\r\n"
    "Content-Length: {}\r\n\r\n"
)


def keep_asking(address: str, quiet: threading.Event) -> threading.Thread:
    """Ask a scheduler from now until an event is set; return the thread that does."""
    thread = threading.Thread(
        target=_ask, args=(address, quiet), name=f"asks {address}", daemon=True
    )
    thread.start()
    return thread


def _ask(address: str, quiet: threading.Event) -> None:
    """Ask again and again; no answer is waited for, but each link stays until the end."""
    host, _, port = address.rpartition(":")
    login = base64.b64encode(f"chaos:{SECRET}".encode()).decode()
    question = _HEAD.format(address, login, len(_QUESTION)).encode() + _QUESTION
    with ExitStack() as links:
        while not quiet.wait(GAP):
            with suppress(OSError):  # it may have been killed meanwhile
                link = links.enter_context(socket.create_connection((host, int(port)), 0.5))
                link.sendall(question)
