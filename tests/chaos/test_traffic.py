"""Steady questions reach a scheduler until they are told to end, whether it answers or not."""

import threading
from collections.abc import Callable
from xmlrpc.server import SimpleXMLRPCServer

from tests.chaos.traffic import keep_asking


def test_a_scheduler_is_asked_again_and_again(eventually: Callable[..., None]) -> None:
    asked: list[tuple[int, int]] = []
    quiet = threading.Event()
    with SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False) as server:
        server.register_function(lambda *about: asked.append(about) or True, "list_events")
        threading.Thread(target=server.serve_forever).start()
        thread = keep_asking(f"127.0.0.1:{server.server_address[1]}", quiet)
        eventually(lambda: len(asked) >= 1)
        quiet.set()
        thread.join()
        server.shutdown()

    assert asked[0] == (0, 1)


def test_a_scheduler_that_is_gone_ends_nothing() -> None:
    quiet = threading.Event()
    thread = keep_asking("127.0.0.1:1", quiet)
    quiet.wait(1)
    quiet.set()
    thread.join()
