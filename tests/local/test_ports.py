"""Ports: free, taken, remembered."""

import socket

from pyspider_zk.local import ports


def test_a_port_that_somebody_listens_on_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not ports.is_free(taken.getsockname()[1])


def test_a_port_is_none_that_outgoing_connections_get():
    assert all(ports.any_free() in ports.LASTING for _ in range(20))


def test_if_all_of_those_are_taken_another_one_serves(monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda _: False)

    with socket.create_server(("127.0.0.1", ports.any_free())):
        pass


def test_a_remembered_port_is_preferred_while_it_is_free(tmp_path):
    port = ports.any_free()
    ports.remember(tmp_path / "port", port)

    assert ports.preferred(tmp_path / "port") == port


def test_a_remembered_port_that_is_taken_gives_way_to_another(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports.remember(tmp_path / "port", port)

        assert ports.preferred(tmp_path / "port") != port


def test_a_note_that_is_no_port_is_ignored(tmp_path):
    for text in ("", "none", "0", "70000", "-1"):
        (tmp_path / "port").write_text(text, encoding="ascii")

        assert ports.is_free(ports.preferred(tmp_path / "port"))
