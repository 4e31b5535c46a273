"""Who may call a member: rules without a network."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.rpc.admission import (
    NOBODY,
    WINDOW,
    Admitted,
    CallAdmission,
    Caller,
    CallRefused,
    Head,
    admission_of,
)
from pyspider_zk.rpc.proof import ANSWER_HEADER, Call, Prover, digest

SECRET = "correct horse battery"  # noqa: S105 - of these tests
HERE = ("127.0.0.1", 23333)
HOST = "127.0.0.1:23333"
NOW = 1_000_000.0
BODY = b"<methodCall/>"
NONCE = "0123456789abcdef" * 2


def entry(secret: str = SECRET, **more: Any) -> CallAdmission:
    return CallAdmission(secret, clock=lambda: NOW, **more)


def head(method: str = "POST", **headers: str | None) -> Head:
    given = {"host": HOST, "content-type": "text/xml", **headers}
    spelled = {name.replace("_", "-"): value for name, value in given.items()}
    return Head(method, spelled.get, HERE)


def refused(asked: CallAdmission, given: Head) -> CallRefused:
    with pytest.raises(CallRefused) as found:
        asked.admit(given)
    assert SECRET not in str(found.value)
    return found.value


def basic(user: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


def proven(secret: str = SECRET, **changed: Any) -> str:
    call = {"host": HOST, "time": int(NOW), "nonce": NONCE, "user": "ann", "digest": digest(BODY)}
    return Prover(secret).header(Call(**{**call, **changed}))


# --- browsers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://{HOST}"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"content_type": None}, 415),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "text/plain;charset=UTF-8"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "text/xml2"}, 415),
        ({"host": None}, 421),
        ({"host": ""}, 421),
        ({"host": "evil.example:23333"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "evil@127.0.0.1.example"}, 421),
        ({"host": "[::1"}, 421),
        ({"host": "10.0.0.9:23333"}, 421),
    ],
)
@pytest.mark.parametrize("secret", ["", SECRET])
def test_what_a_browser_can_be_made_to_send_is_refused(
    secret: str, changed: dict[str, str | None], status: int
) -> None:
    given = {"content_type": "text/xml", "authorization": basic("ann", SECRET), **changed}
    assert refused(entry(secret), head(**given)).status == status


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "JUNK"])
def test_calls_are_posted(method: str) -> None:
    found = refused(entry(), head(method, authorization=basic("ann", SECRET)))
    assert (found.status, found.headers) == (405, {"Allow": "POST"})


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:23333", "crawl.example.org:80"]
)
def test_names_of_ours_are_answered(host: str) -> None:
    asked = entry("", names=["Crawl.example.org"])
    assert asked.admit(head(host=host)) == Admitted(NOBODY)


def test_the_address_at_which_a_call_arrived_is_ours() -> None:
    for arrived, host in (("10.0.0.9", "10.0.0.9:5"), ("::ffff:10.0.0.9", "10.0.0.9:5")):
        given = Head("POST", {"host": host, "content-type": "text/xml"}.get, (arrived, 5))
        assert entry("").admit(given) == Admitted(NOBODY)


def test_a_content_type_may_name_its_charset() -> None:
    assert entry("").admit(head(content_type="Text/XML; charset=utf-8")) == Admitted(NOBODY)


# --- the secret ---------------------------------------------------------------------------------


def test_without_a_secret_nobody_is_believed() -> None:
    for presented in (None, basic("ann", "guess"), proven()):
        assert entry("").admit(head(authorization=presented)) == Admitted(NOBODY)


def test_who_knows_the_secret_is_who_it_says() -> None:
    found = entry().admit(head(authorization=basic("änn", SECRET)))
    assert found == Admitted(Caller("änn", proven=True))
    assert entry().answer(found, b"answer") is None


@pytest.mark.parametrize(
    "presented",
    [
        None,
        "",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic \xff\xff",
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Bearer " + SECRET,
        SECRET,
        basic("ann", ""),
        basic("ann", SECRET[:-1]),
        basic("ann", SECRET + "x"),
        basic(SECRET, ""),
        basic("a\nb", SECRET),
        basic("x" * 101, SECRET),
        "PyspiderZk ",
        "PyspiderZk junk",
        "PyspiderZk time=x&nonce=y&user=z&digest=&proof=",
        "PyspiderZk " + "&" * 10_000,
        proven("another secret of ours"),
        proven().replace("user=ann", "user=root"),
        proven().replace(digest(BODY), digest(b"other")),
        proven() + "&user=root",
        proven(host="127.0.0.1:1"),
        proven(nonce="x"),
        proven(time=int(NOW) + 1).replace(str(int(NOW) + 1), str(int(NOW))),
    ],
)
def test_whoever_does_not_is_asked_for_it(presented: str | None) -> None:
    found = refused(entry(), head(authorization=presented))
    assert found.status == 401
    assert found.headers["WWW-Authenticate"].startswith("Basic realm=")
    assert found.body == b""


# --- proofs -------------------------------------------------------------------------------------


def test_a_proof_says_on_whose_behalf_a_call_is_made_and_is_answered_by_another() -> None:
    asked = entry()
    found = asked.admit(head(authorization=proven()))
    assert found.caller == Caller("ann", proven=True)
    assert found.call is not None
    answer = asked.answer(found, b"answer") or ""
    prover = Prover(SECRET)
    assert prover.proves(answer, found.call, b"answer")
    assert not prover.proves(answer, found.call, b"another answer")
    assert not Prover("another secret of ours").proves(answer, found.call, b"answer")
    assert not prover.proves("", found.call, b"answer")


def test_a_call_comes_once() -> None:
    asked = entry()
    asked.admit(head(authorization=proven()))
    assert refused(asked, head(authorization=proven())).status == 401
    asked.admit(head(authorization=proven(nonce=NONCE[::-1])))


@pytest.mark.parametrize("ahead", [-200, 0, 1])
def test_a_call_does_not_come_again_after_a_restart(ahead: int) -> None:
    now = [NOW]
    recorded = proven(time=int(NOW) + ahead)
    now[0] -= WINDOW
    before = CallAdmission(SECRET, clock=lambda: now[0])
    now[0] += WINDOW
    before.admit(head(authorization=recorded))
    now[0] += 2
    after = CallAdmission(SECRET, clock=lambda: now[0])

    for later in (0, WINDOW / 2, WINDOW):
        now[0] = NOW + 2 + later
        assert refused(after, head(authorization=recorded)).status == 401

    after.admit(head(authorization=proven(time=int(now[0]), nonce=NONCE[::-1])))


def test_a_caller_whose_clock_is_behind_is_told_a_time_that_will_do() -> None:
    made = entry()
    found = refused(made, head(authorization=proven(time=int(NOW - WINDOW / 2))))

    assert made.admit(head(authorization=proven(time=int(found.body)))).caller.user == "ann"


def test_a_clock_that_is_set_back_shuts_nobody_out() -> None:
    now = [NOW]
    made = CallAdmission(SECRET, clock=lambda: now[0])
    now[0] -= 2 * WINDOW

    assert made.admit(head(authorization=proven(time=int(now[0])))).caller.user == "ann"


def test_a_call_is_for_the_member_at_its_port() -> None:
    here = "127.0.0.1:1"
    given = head(host=here, authorization=proven(host=here))
    assert refused(entry(), given).status == 421


@pytest.mark.parametrize("shift", [-2 * WINDOW, 2 * WINDOW])
def test_who_knows_the_secret_is_told_the_time_and_nobody_else(shift: float) -> None:
    then = int(NOW + shift)
    found = refused(entry(), head(authorization=proven(time=then)))
    assert (found.status, found.body) == (401, str(int(NOW)).encode())
    call = Call(HOST, then, NONCE, "ann", digest(BODY))
    assert Prover(SECRET).proves(found.headers[ANSWER_HEADER], call, found.body)
    assert refused(entry(), head(authorization=proven("x" * 20, time=then))).body == b""


def test_calls_are_forgotten_when_no_window_holds_them_any_more() -> None:
    now = [NOW]
    asked = CallAdmission(SECRET, clock=lambda: now[0])

    def admit(number: int) -> None:
        presented = proven(time=int(now[0]), nonce=f"{number:032x}")
        asked.admit(head(authorization=presented))

    for number in range(100):
        admit(number)
    now[0] += 2 * WINDOW
    admit(1000)
    assert len(asked._nonces._until) == 1


# --- where it may listen ------------------------------------------------------------------------


def listens(made: CallAdmission, host: str) -> Callable[[], None]:
    return lambda: made.listen(host)


def test_only_with_a_secret_or_a_word_does_it_listen_everywhere() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - not bound
    listens(entry(), everywhere)()
    listens(entry(""), "127.0.0.1")()
    listens(entry("", insecure=True), everywhere)()
    with pytest.raises(ConfigError, match=r"--xmlrpc-host 0\.0\.0\.0.*secret_file.*--insecure"):
        listens(entry(""), everywhere)()


def test_without_a_secret_the_log_says_what_is_open(caplog: pytest.LogCaptureFixture) -> None:
    entry("").listen("127.0.0.1")
    assert "XML-RPC has no secret: every program on this machine" in caplog.text


def test_the_name_that_it_listens_on_is_ours() -> None:
    made = entry()
    made.listen("Crawl1.example.org")
    given = head(host="crawl1.example.org:23333", authorization=basic("ann", SECRET))
    assert made.admit(given).caller.user == "ann"


def test_settings_name_the_hosts() -> None:
    made = admission_of(
        Settings(xmlrpc_names=("crawl.example.org",), advertise="Other.example.org")
    )
    for host in ("crawl.example.org", "other.example.org:80"):
        assert made.admit(head(host=host)) == Admitted(NOBODY)
