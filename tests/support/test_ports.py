"""A port that was given to a test is nobody else's."""

import socket
import subprocess
import sys

import pytest

from tests.support.ports import LOOPBACK, own_port
from tests.support.processes import ROOT


def test_a_port_is_given_once_on_the_whole_machine() -> None:
    asked = "from tests.support.ports import own_port; print(own_port(), own_port())"
    theirs = subprocess.check_output([sys.executable, "-c", asked], cwd=ROOT, text=True).split()
    ours = [own_port(), own_port()]
    again = subprocess.check_output([sys.executable, "-c", asked], cwd=ROOT, text=True).split()
    assert len({*ours, *map(int, again)}) == len(set(theirs)) * 2 == 4


def test_connections_are_refused_until_a_server_listens() -> None:
    port = own_port()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))
    with socket.create_server((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)):
        pass
    with socket.create_server(("", port)), socket.create_connection((LOOPBACK, port)):
        pass
