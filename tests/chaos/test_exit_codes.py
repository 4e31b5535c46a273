"""Only a machine that permits no namespaces may end a run with the code that says so."""

import os
import subprocess
import sys

import pytest

from pyspider_zk.errors import MissingService
from tests.chaos import network
from tests.chaos.__main__ import MISSING, NOT_PERMITTED, main
from tests.chaos.network import NotPermitted


def exit_code(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """Return what a run ends with that fails so."""

    def failing(_: object) -> int:
        raise error

    monkeypatch.setattr(sys, "argv", ["chaos"])
    monkeypatch.setattr("tests.chaos.__main__.check_permission", lambda: None)
    monkeypatch.setattr("tests.chaos.__main__.run", failing)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return main()


def test_not_permitted_and_missing_have_codes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {NOT_PERMITTED, MISSING}

    assert exit_code(monkeypatch, NotPermitted("no")) == NOT_PERMITTED
    assert exit_code(monkeypatch, MissingService("no")) == MISSING
    assert codes.isdisjoint({0, 1, 2})  # all well, a promise broken, a mistyped option


def test_a_mistyped_option_is_another_code() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--secnods", "1"]

    assert subprocess.run(command, capture_output=True).returncode == 2


def permission(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """Ask for permission where ``ip`` says something and fails."""
    script = f"import sys; sys.exit({says!r})"
    monkeypatch.setattr(network, "_ip", lambda *_: network._run([sys.executable, "-c", script]))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(network, "_require", lambda *_: None)
    network.check_permission()


def test_only_a_refusal_of_the_kernel_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotPermitted, match="Operation not permitted"):
        permission(monkeypatch, "mount --make-shared /run/netns failed: Operation not permitted")


def test_any_other_failure_of_ip_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        permission(monkeypatch, 'Object "netsn" is unknown, try "ip help".')

    assert "netsn" in str(failed.value.__notes__)


def test_whoever_is_not_root_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(NotPermitted, match="root"):
        network.check_permission()


@pytest.mark.parametrize("suite", ["tests.chaos", "tests.attack"])
def test_a_machine_without_a_program_is_no_machine_that_refuses(suite: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is asked for more than to be root")
    code = f"from {suite}.__main__ import main; import sys; sys.argv[1:] = []; sys.exit(main())"
    own = os.environ | {"PATH": "/nowhere"}

    done = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True)

    assert done.returncode == MISSING, done.stderr
    assert "ip is missing; Debian/Ubuntu: apt install iproute2" in done.stderr
