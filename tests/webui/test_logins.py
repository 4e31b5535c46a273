"""Who sent a request, by password or session; wrong passwords are counted in bounded memory."""

import logging
import threading
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.webui import accounts
from pyspider_zk.webui.accounts import FileAccounts, account_faults, all_accounts
from pyspider_zk.webui.logins import (
    COOKIE,
    LASTS,
    PER_PEER,
    PER_USER,
    STRANGERS,
    Key,
    Login,
    Logins,
    LoginSessions,
    Throttle,
    TooManyTries,
    WrongLogin,
    peer_key,
)
from pyspider_zk.webui.users import Role, change_users, read_users, remove_user
from tests.support.clock import Clock

ANN = {"webui_username": "ann", "webui_password": "secret"}
EVE = {"viewer_username": "eve", "viewer_password": "look"}
PASSWORD = "correct horse"  # noqa: S105 - a test's


@pytest.fixture
def clock() -> Clock:
    return Clock(1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    change_users(tmp_path / "users.json", Role.OPERATOR, "olga", PASSWORD)
    return tmp_path / "users.json"


@pytest.fixture
def logins(clock: Clock, path: Path) -> Logins:
    accounts = all_accounts(ANN | EVE, FileAccounts(path).read)
    return Logins(accounts, Throttle(clock), LoginSessions(read_users(path).key, clock))


def test_a_file_that_cannot_be_read_lets_nobody_in_and_each_fault_is_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    accounts = FileAccounts(path)
    for mode, found in ((0o600, ["olga"]), (0o644, []), (0o600, ["olga"]), (0o644, [])):
        path.chmod(mode)
        assert [list(accounts.read()) for _ in range(3)] == [found] * 3
    path.unlink()
    assert accounts.read() == {}
    told = [record.getMessage() for record in caplog.records]
    assert [sum(text in each for each in told) for text in ("chmod 600", "No such file")] == [2, 1]
    assert len(told) == 3


def basic(name: str, password: str, peer: str = "192.0.2.1") -> dict[str, Any]:
    coded = b64encode(f"{name}:{password}".encode()).decode()
    return {"HTTP_AUTHORIZATION": f"Basic {coded}", "REMOTE_ADDR": peer}


@pytest.mark.parametrize(("kind", "limit"), [("user", PER_USER), ("peer", PER_PEER)])
def test_after_so_many_the_next_must_wait(clock: Clock, kind: str, limit: tuple) -> None:
    throttle, key, other = Throttle(clock), [Key(kind, "x")], [Key(kind, "y")]
    burst, pause = limit
    for _ in range(burst - 1):
        assert throttle.failed(key) == []
    assert throttle.wait(key) == 0
    assert throttle.failed(key) == key
    assert throttle.wait(key) == pause
    assert throttle.wait(other) == 0
    assert throttle.wait([*other, *key]) == pause


def test_time_lets_one_more_through_and_not_two(clock: Clock) -> None:
    throttle, key = Throttle(clock), [Key("user", "x")]
    for _ in range(PER_USER.burst):
        throttle.failed(key)
    clock.now += PER_USER.pause
    assert throttle.wait(key) == 0
    throttle.failed(key)
    assert throttle.wait(key) == PER_USER.pause


def test_a_long_rest_forgets_all(clock: Clock) -> None:
    throttle, key = Throttle(clock), [Key("user", "x")]
    for _ in range(PER_USER.burst):
        throttle.failed(key)
    clock.now += 1e6
    assert [throttle.failed(key) for _ in range(PER_USER.burst)] == [[]] * 9 + [key]


def test_memory_is_bounded_and_those_that_go_on_are_kept(clock: Clock) -> None:
    throttle, busy = Throttle(clock, most=50), [Key("peer", "busy")]
    for number in range(1000):
        throttle.failed([Key("user", str(number)), *busy])
    assert len(throttle._levels) == 50
    assert throttle.wait(busy) > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
    ],
)
def test_a_network_of_ipv6_is_one_peer(one: str, other: str, same: bool) -> None:
    keys: Callable[[str], Key] = peer_key
    assert (keys(one) == keys(other)) is same


@pytest.mark.parametrize(
    ("name", "password", "role"),
    [
        ("ann", "secret", Role.ADMIN),
        ("eve", "look", Role.VIEWER),
        ("olga", PASSWORD, Role.OPERATOR),
    ],
)
def test_settings_and_file_have_accounts(
    logins: Logins, name: str, password: str, role: Role
) -> None:
    for _ in range(2):
        assert logins.find(basic(name, password)) == Login(name, role)
    with pytest.raises(WrongLogin):
        logins.find(basic(name, f"{password}!"))


def test_no_credentials_are_nobody_and_unreadable_ones_are_refused(logins: Logins) -> None:
    assert logins.find({}) is None
    for cookie in (
        f"{COOKIE}=forged",
        f"x=\xff\xfe;;==; {COOKIE}=\xff.\xfe",
        f"{COOKIE}=..",
        COOKIE,
    ):
        assert logins.find({"HTTP_COOKIE": cookie}) is None
    for header in ("", "Basic", "Basic \xff\xff=", "Digest username=ann", "Bogus YW5uOnNlY3JldA=="):
        with pytest.raises(WrongLogin):
            logins.find({"HTTP_AUTHORIZATION": header})


def test_where_nobody_can_log_in_credentials_mean_nothing(clock: Clock) -> None:
    logins = Logins(all_accounts({}), Throttle(clock), LoginSessions("k", clock))
    assert logins.find(basic("None", "None")) is None
    with pytest.raises(WrongLogin):
        logins.start_session("", "", "192.0.2.1")


def test_wrong_passwords_of_a_user_are_throttled_from_wherever(
    logins: Logins, clock: Clock
) -> None:
    for number in range(PER_USER.burst):
        with pytest.raises(WrongLogin):
            logins.find(basic("ann", "guess", f"192.0.2.{number}"))
    with pytest.raises(TooManyTries) as raised:
        logins.find(basic("ann", "secret", "192.0.2.99"))
    assert raised.value.wait == PER_USER.pause
    assert logins.find(basic("eve", "look")) == Login("eve", Role.VIEWER)
    clock.now += PER_USER.pause
    assert logins.find(basic("ann", "secret")) == Login("ann", Role.ADMIN)


def test_who_logged_in_from_an_address_is_not_locked_out_there_by_others(
    logins: Logins,
) -> None:
    logins.start_session("ann", "secret", "192.0.2.1")
    for number in range(PER_USER.burst):
        with pytest.raises(WrongLogin):
            logins.start_session("ann", "guess", f"192.0.2.{100 + number}")
    with pytest.raises(TooManyTries):
        logins.start_session("ann", "another", "192.0.2.2")
    with pytest.raises(WrongLogin):
        logins.start_session("ann", "mistyped", "192.0.2.1")
    assert logins.start_session("ann", "secret", "192.0.2.1")


def test_from_an_address_that_is_known_guessing_is_no_faster(logins: Logins) -> None:
    logins.start_session("olga", PASSWORD, "192.0.2.1")
    for _ in range(PER_USER.burst):
        with pytest.raises(WrongLogin):
            logins.start_session("olga", "guess", "192.0.2.1")
    for guess in ("guess", "correct"):
        with pytest.raises(TooManyTries) as raised:
            logins.start_session("olga", guess, "192.0.2.1")
        assert raised.value.wait == PER_USER.pause


@pytest.mark.parametrize("name", ["ann", "eve", "olga", "nobody", ""])
def test_every_wrong_login_is_the_same_work(
    logins: Logins, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    hashed: list[str] = []
    check = accounts.check_password_hash

    def counted(secret: str, password: str) -> bool:
        hashed.append(secret.partition("$")[0])
        return check(secret, password)

    monkeypatch.setattr(accounts, "check_password_hash", counted)
    with pytest.raises(WrongLogin):
        logins.start_session(name, "guess", "192.0.2.1")
    assert hashed == ["scrypt:32768:8:1"]


def test_a_peer_is_throttled_whatever_names_it_tries(logins: Logins) -> None:
    for number in range(PER_PEER.burst):
        with pytest.raises(WrongLogin):
            logins.find(basic(f"name{number}", "guess"))
    with pytest.raises(TooManyTries):
        logins.find(basic("ann", "secret"))
    assert logins.find(basic("ann", "secret", "192.0.2.2")) == Login("ann", Role.ADMIN)


def test_who_is_logged_in_already_is_not_locked_out_by_others(logins: Logins) -> None:
    cookie = logins.start_session("ann", "secret", "192.0.2.1")
    for _ in range(PER_USER.burst):
        with pytest.raises(WrongLogin):
            logins.find(basic("ann", "guess", "192.0.2.9"))
    assert logins.find(basic("ann", "secret")) == Login("ann", Role.ADMIN)
    assert logins.find({"HTTP_COOKIE": f"{COOKIE}={cookie}"}) == Login("ann", Role.ADMIN)


def test_the_log_tells_of_wrong_logins_and_not_what_was_presented(
    logins: Logins, caplog: pytest.LogCaptureFixture
) -> None:
    for name, password in (("ann", "hush-1"), ("hush-2", "hush-3")) * PER_USER.burst * 10:
        with pytest.raises((WrongLogin, TooManyTries)):
            logins.find(basic(name, password))
    assert "wrong login to the web UI as 'ann' from 192.0.2.1" in caplog.text
    assert "as an unknown name from 192.0.2.1" in caplog.text
    assert "too many wrong logins" in caplog.text
    assert "hush" not in caplog.text
    assert len(caplog.records) < 2 * PER_PEER.burst


def test_a_session_lasts_so_long(logins: Logins, clock: Clock) -> None:
    cookie = {"HTTP_COOKIE": f"x=y; {COOKIE}={logins.start_session('olga', PASSWORD, '')}"}
    clock.now += LASTS - 1
    assert logins.find(cookie) == Login("olga", Role.OPERATOR)
    clock.now += 1
    assert logins.find(cookie) is None


def test_a_session_ends_with_the_password_and_follows_the_role(logins: Logins, path: Path) -> None:
    cookie = {"HTTP_COOKIE": f"{COOKIE}={logins.start_session('olga', PASSWORD, '')}"}
    change_users(path, Role.VIEWER, "olga", None)
    assert logins.find(cookie) == Login("olga", Role.VIEWER)
    change_users(path, Role.VIEWER, "olga", f"{PASSWORD}!")
    assert logins.find(cookie) is None
    with pytest.raises(WrongLogin):
        logins.find(basic("olga", PASSWORD))
    remove_user(path, "olga")
    with pytest.raises(WrongLogin):
        logins.find(basic("olga", f"{PASSWORD}!"))


def test_a_cookie_of_another_key_or_user_is_nobody_s(clock: Clock) -> None:
    ours, theirs = LoginSessions("k" * 64, clock), LoginSessions("j" * 64, clock)
    assert ours.read(ours.issue("ann", "secret")) is not None
    assert ours.read(theirs.issue("ann", "secret")) is None
    name, _, rest = ours.issue("ann", "secret").partition(".")
    assert ours.read(f"{name[:-1]}A.{rest}") is None
    assert ours.read("") is None


def test_a_file_that_breaks_lets_nobody_of_it_in(
    logins: Logins, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert logins.find(basic("olga", PASSWORD))
    path.chmod(0o644)
    with caplog.at_level(logging.ERROR), pytest.raises(WrongLogin):
        logins.find(basic("olga", PASSWORD))
    assert "chmod 600" in caplog.text
    assert logins.find(basic("ann", "secret"))
    path.chmod(0o600)
    assert logins.find(basic("olga", PASSWORD))


def test_a_name_in_two_places_is_a_fault(path: Path) -> None:
    assert account_faults(ANN | EVE, str(path)) == []
    assert "'olga'" in account_faults({**ANN, "webui_username": "olga"}, str(path))[0]
    assert "no-file" in account_faults(ANN, "no-file")[0]


def test_one_password_is_hashed_at_a_time(logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash takes 32 MB, and strangers may ask for any number."""
    meeting, met = threading.Barrier(2), []

    def check(*_: str) -> bool:
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.5)
            met.append("two")
        return False

    monkeypatch.setattr(accounts, "check_password_hash", check)
    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(logins.find, basic("olga", str(number))) for number in range(2)]
    assert [type(each.exception()) for each in tries] == [WrongLogin, WrongLogin]
    assert met == []


def test_guesses_from_many_peers_leave_threads_to_others(
    logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins.find(basic("olga", PASSWORD, "198.51.100.7"))
    may_go = threading.Event()
    monkeypatch.setattr(accounts, "check_password_hash", lambda *_: not may_go.wait(60))

    def guess(peer: str) -> Future[Login | None]:
        return pool.submit(logins.find, basic("olga", "guess", peer))

    with ThreadPoolExecutor(STRANGERS + 2) as pool:
        guesses = [guess(f"192.0.2.{number}") for number in range(STRANGERS + 1)]
        (refused,), _ = wait(guesses, 60, FIRST_COMPLETED)
        guesses[guesses.index(refused)] = guess("198.51.100.7")
        may_go.set()
    assert isinstance(refused.exception(), TooManyTries)
    assert str(refused.exception()) == "too many passwords are being checked: try again in 1 s"
    assert {type(each.exception()) for each in guesses} == {WrongLogin}
