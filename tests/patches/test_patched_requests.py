"""What a script says is what its site gets, or crawl() refuses it and says why."""

import base64
import io
import json
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.patches.conftest import serving
from tests.patches.test_patched_scripts import build

RAW = bytes(range(256))
FORM = "application/x-www-form-urlencoded"
HANDLER = """
class Handler(BaseHandler):
    def page(self, response):
        pass
"""


class EchoSite(BaseHTTPRequestHandler):
    """A site that tells what it got, byte for byte."""

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        heads = [(name, value) for name, value in self.headers.items()]
        told = {
            "method": self.command,
            "path": self.path,
            "headers": heads,
            "body": base64.b64encode(self.rfile.read(length)).decode(),
        }
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - http.server calls them so
    do_PATCH = do_OPTIONS = do_PURGE = answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


class Got:
    """Request as the site got it."""

    def __init__(self, page: dict[str, Any]) -> None:
        assert page["status_code"] == 200, page
        told = json.loads(page["content"])
        self.method, self.path = told["method"], told["path"]
        self.body = base64.b64decode(told["body"])
        self.headers = {name: value.encode("latin1") for name, value in told["headers"]}
        self.length = len(told["headers"])


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with serving(EchoSite) as url:
        yield url


def instance(script: str = HANDLER) -> Any:
    made = build(script)["instance"]
    made._reset()
    return made


def stored(task: dict[str, Any]) -> Any:
    """Return a task as a fetcher gets it, after queues and databases."""
    from pyspider.libs.utils import decode_unicode_obj

    return decode_unicode_obj(json.loads(json.dumps(task)))


@pytest.fixture
def got(fetcher: Any, echo: str) -> Any:
    """Give what the site gets of a call of crawl(), of a handler if there is one."""

    def send(handler: Any = None, path: str = "/", **arguments: Any) -> Got:
        task = (handler or instance()).crawl(echo + path, **arguments)
        return Got(fetcher.fetch(stored(task)))

    return send


METHODS = [
    ({"method": "POST"}, "POST", b""),
    ({"method": "post", "data": {"a": 1}}, "POST", b"a=1"),
    ({"method": "POST", "data": {}}, "POST", b""),
    ({"method": "PUT"}, "PUT", b""),
    ({"method": "PUT", "data": "x"}, "PUT", b"x"),
    ({"method": "DELETE"}, "DELETE", b""),
    ({"method": "DELETE", "data": "x"}, "DELETE", b"x"),
    ({"method": "GET", "data": "{}"}, "GET", b"{}"),
    ({"method": "PATCH", "data": b"\xff"}, "PATCH", b"\xff"),
    ({"method": "OPTIONS"}, "OPTIONS", b""),
    ({"method": "PURGE"}, "PURGE", b""),
    ({"data": "x"}, "POST", b"x"),
    ({"data": None}, "GET", b""),
    ({"data": ""}, "GET", b""),
]


@pytest.mark.parametrize(("arguments", "method", "body"), METHODS)
def test_any_method_goes_with_a_body_or_without(
    got: Any, arguments: dict[str, Any], method: str, body: bytes
) -> None:
    seen = got(**arguments)
    assert (seen.method, seen.body) == (method, body)
    is_form = body or method == "POST"
    assert seen.headers.get("Content-Type") == (FORM.encode() if is_form else None)


BODIES = [
    (RAW, RAW),
    (bytearray(RAW), RAW),
    (memoryview(RAW), RAW),
    ("\u4e2d", "\u4e2d".encode()),
    ("[BASE64-DATA]eA==[/BASE64-DATA]", b"[BASE64-DATA]eA==[/BASE64-DATA]"),
    (b"[BASE64-DATA]eA==[/BASE64-DATA]", b"[BASE64-DATA]eA==[/BASE64-DATA]"),
    ({"a": ["\u4e2d", 2], "b": None, "c": b"\xff"}, b"a=%E4%B8%AD&a=2&c=%FF"),
    ([("a", 1), ("a", 2)], b"a=1&a=2"),
    ((("a", 1),), b"a=1"),
    (iter([("a", 1)]), b"a=1"),
    (io.BytesIO(RAW), RAW),
    (io.StringIO("text"), b"text"),
]


@pytest.mark.parametrize(("data", "body"), BODIES)
def test_a_body_arrives_byte_for_byte(got: Any, data: Any, body: bytes) -> None:
    if hasattr(data, "seek"):
        data.seek(0)
    assert got(data=data).body == body or isinstance(data, Iterator)


FILES = [
    {"file": ("a.bin", RAW)},
    {"file": ("a.bin", io.BytesIO(RAW))},
    [("file", ("a.bin", RAW, "image/png"))],
    {"file": RAW},
]


@pytest.mark.parametrize("files", FILES)
def test_files_arrive_byte_for_byte(got: Any, files: Any) -> None:
    seen = got(files=files, data={"k": "\u4e2d"}, headers={"content-type": "text/plain"})
    assert seen.method == "POST"
    assert RAW in seen.body
    assert "\u4e2d".encode() in seen.body
    assert seen.headers["Content-Type"].startswith(b"multipart/form-data; boundary=")


HEADERS = [
    ({"X-A": "\u4e2d"}, {"X-A": "\u4e2d".encode()}),
    ({"X-A": b"\xe9"}, {"X-A": b"\xe9"}),
    ({"X-A": 1, "X-B": 1.5, "X-C": Decimal("1.10")}, {"X-A": b"1", "X-B": b"1.5", "X-C": b"1.10"}),
    ({"X-A": ""}, {"X-A": b""}),
    ({"X-A": None, "X-B": "b"}, {"X-B": b"b"}),
    ([("X-A", "1"), ("x-a", "2")], {"X-A": b"1, 2"}),
    (OrderedDict({"user-agent": "me"}), {"User-Agent": b"me"}),
    ({"X-A": "a", "x-a": "b"}, {"X-A": b"b"}),
    ({"Content-Length": "7"}, {}),
    ({"Accept-Encoding": "gzip, br;q=0.5, zstd"}, {"Accept-Encoding": b"gzip, br;q=0.5"}),
    ({"X-A": "  padded\t"}, {"X-A": b"padded"}),
]


@pytest.mark.parametrize(("headers", "sent"), HEADERS)
def test_headers_arrive_as_they_are_written(got: Any, headers: Any, sent: dict[str, bytes]) -> None:
    seen = got(headers=headers)
    assert {name: seen.headers.get(name) for name in sent} == sent
    assert seen.headers.get("Content-Length") is None


def test_headers_may_be_any_mapping(got: Any) -> None:
    from requests.structures import CaseInsensitiveDict
    from tornado.httputil import HTTPHeaders

    for kind in (CaseInsensitiveDict, HTTPHeaders, OrderedDict):
        assert got(headers=kind({"X-A": "a"})).headers["X-A"] == b"a"


def test_the_name_of_the_browser_is_an_argument_of_its_own(got: Any) -> None:
    assert got(user_agent="me", headers={"user-agent": "it"}).headers["User-Agent"] == b"me"
    config = instance(HANDLER + "    crawl_config = {'user_agent': 'me'}\n")
    task = config.task_join_crawl_config(config.crawl("http://h/"), told(config))
    assert task["fetch"]["headers"] == {"User-Agent": "me"}


COOKIES = [
    ({"headers": {"Cookie": 'sid=1; p={"a":1,"b":[2]}; z=3'}}, b'sid=1; p={"a":1,"b":[2]}; z=3'),
    ({"headers": {"cookie": "a[b]=2; n=hello world"}}, b"a[b]=2; n=hello world"),
    ({"headers": {"Cookie": 'sid="a=b|c"; n=\u4e2d'}}, 'sid="a=b|c"; n=\u4e2d'.encode()),
    ({"headers": {"Cookie": b"n=\xe9"}}, b"n=\xe9"),
    ({"headers": {"Cookie": "alone; a="}}, b"alone; a="),
    ({"cookies": {"sid": 1, "n": "\u4e2d", "e": ""}}, "sid=1; n=\u4e2d; e=".encode()),
    ({"cookies": [("a", "1"), ("b", "2")]}, b"a=1; b=2"),
    ({"cookies": "a=1; b=x y"}, b"a=1; b=x y"),
    ({"cookies": {"a": "1"}, "headers": {"Cookie": "a=0; b=2"}}, b"b=2; a=1"),
    ({"cookies": SimpleCookie("a=1; b=2")}, b"a=1; b=2"),
]


@pytest.mark.parametrize(("arguments", "sent"), COOKIES)
def test_cookies_arrive_as_they_are_written(
    got: Any, arguments: dict[str, Any], sent: bytes
) -> None:
    assert got(**arguments).headers["Cookie"] == sent


def test_a_jar_of_cookies_is_sent(got: Any) -> None:
    from requests.cookies import RequestsCookieJar

    jar = RequestsCookieJar()
    jar.set("a", "1", domain="elsewhere.example", path="/p")
    assert got(cookies=jar).headers["Cookie"] == b"a=1"


REFUSED = [
    ({"method": "CONNECT"}, "method cannot be sent: CONNECT"),
    ({"method": "GE T"}, "method cannot be sent: 'GE T'"),
    ({"method": "HEAD", "data": "x"}, "data cannot be sent: HEAD has none"),
    ({"headers": {"X-A": "a\r\nX-B: b"}}, r"headers\['X-A'\] cannot be sent: it has '\\r'"),
    ({"headers": {"X A": "a"}}, r"headers\['X A'\] cannot be sent: that is no name"),
    ({"headers": {":authority": "a"}}, r"headers\[':authority'\]"),
    ({"headers": {"X-A": ["a"]}}, r"headers\['X-A'\] cannot be sent: it is a list"),
    ({"headers": {"X-A": True}}, r"headers\['X-A'\] cannot be sent: it is a bool"),
    ({"headers": "X-A: a"}, "headers cannot be sent: it is a str"),
    ({"headers": 5}, "headers cannot be sent: it is a int"),
    ({"cookies": {"a": "1; b=2"}}, r"cookies\['a'\] cannot be sent: its ';'"),
    ({"cookies": {"a=b": "1"}}, r"cookies\['a=b'\] cannot be sent"),
    ({"cookies": {"a": "1\n"}}, r"cookies\['a'\] cannot be sent: it has '\\n'"),
    ({"cookies": 5}, "cookies cannot be sent: it is a int"),
    ({"data": 5}, "data cannot be sent: it is a int.*json.dumps"),
    ({"data": [1, 2]}, "data cannot be sent: it is a list.*json.dumps"),
    ({"data": {"a": {"b": 1}}}, r"data\['a'\] cannot be sent: a form"),
    ({"data": "x", "files": {"a": b"b"}}, "data cannot be sent: with files"),
    ({"files": 5}, "files cannot be sent: it is a int"),
    ({"files": {"a": ("n", object())}}, "files cannot be sent"),
    ({"timeout": 0}, "timeout cannot be sent: 0 is no number of seconds"),
    ({"timeout": "30"}, "timeout cannot be sent: '30'"),
    ({"connect_timeout": float("nan")}, "connect_timeout cannot be sent"),
    ({"max_redirects": -1}, "max_redirects cannot be sent"),
    ({"proxy": {"http": "a:1"}}, "proxy cannot be sent: it must be an address"),
    ({"proxy": "ftp://a:1"}, "must begin with one of http://, socks4://"),
    ({"fetch_type": "browser"}, "fetch_type cannot be sent: 'browser' is unknown; there are js"),
    ({"js_run_at": "later"}, "js_run_at cannot be sent: 'later' is unknown"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_what_cannot_be_sent_is_refused_in_the_script(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        instance().crawl("http://h/", **arguments)


@pytest.mark.parametrize("arguments", [arguments for arguments, _ in REFUSED])
def test_what_others_send_is_a_failed_fetch(
    fetcher: Any, echo: str, arguments: dict[str, Any]
) -> None:
    task = {"project": "demo", "taskid": "t", "url": f"{echo}/", "fetch": arguments}
    page = fetcher.fetch(task)
    assert page["status_code"] == 599
    assert page["traceback"] is None


@pytest.mark.parametrize("value", ["js", "phantomjs", "chrome", "puppeteer", "splash", None])
def test_a_kind_of_fetch_has_a_name(value: str | None) -> None:
    assert instance().crawl("http://h/", fetch_type=value)["fetch"]["fetch_type"] == value


def test_one_call_leaks_nothing_into_the_next(got: Any) -> None:
    headers, files, cookies = {"X-A": "a"}, {"file": ("a", io.BytesIO(RAW))}, {"a": 1}
    handler = instance()
    urls = ["http://h/1", "http://h/2"]
    tasks = handler.crawl(urls, headers=headers, files=files, cookies=cookies, user_agent="me")
    assert (headers, cookies) == ({"X-A": "a"}, {"a": 1})
    bodies = [stored(task)["fetch"]["data"] for task in tasks]
    assert [RAW in body for body in bodies] == [True, True]
    seen = got(handler, headers=headers)
    assert (seen.method, seen.headers["User-Agent"][:8]) == ("GET", b"pyspider")


def test_what_a_callback_is_configured_with_stays_as_it_is() -> None:
    handler = instance(
        "class Handler(BaseHandler):\n"
        "    @config(headers={'X-A': 'config'}, data={'b': 2})\n"
        "    def page(self, response):\n        pass\n"
    )
    call = {"X-A": "call", "X-B": "call"}
    task = handler.crawl("http://h/", callback=handler.page, headers=call, data={"a": 1})
    assert task["fetch"]["headers"] == {"X-A": "config", "X-B": "call"}
    assert task["fetch"]["data"] == "a=1&b=2"
    assert call == {"X-A": "call", "X-B": "call"}
    again = handler.crawl("http://h/2", callback=handler.page)
    assert again["fetch"]["headers"] == {"X-A": "config"}


def told(handler: Any) -> Any:
    """Return the crawl_config that a script tells its scheduler."""
    handler.save = {}
    response = type("Asked", (), {"save": ["crawl_config"]})
    handler._on_get_info(response, {})
    return json.loads(json.dumps(handler.save["crawl_config"]))


def test_crawl_config_is_sent_as_if_each_call_had_said_it(fetcher: Any, echo: str) -> None:
    config = {"data": {"a": "\u4e2d"}, "headers": [("X-A", 1)], "cookies": "a=1; b=2"}
    handler = instance(HANDLER + f"    crawl_config = {config!r}\n")
    task = handler.crawl(echo + "/", cookies={"b": 3})
    joined = handler.task_join_crawl_config(task, told(handler))
    seen = Got(fetcher.fetch(stored(joined)))
    assert (seen.method, seen.body) == ("POST", b"a=%E4%B8%AD")
    assert (seen.headers["X-A"], seen.headers["Cookie"]) == (b"1", b"a=1; b=3")


def test_a_crawl_config_that_cannot_be_sent_is_refused_by_crawl() -> None:
    handler = instance(HANDLER + "    crawl_config = {'headers': 'X-A: a'}\n")
    with pytest.raises(ValueError, match="crawl_config: headers cannot be sent"):
        handler.crawl("http://h/")
    assert told(handler) == {"headers": "X-A: a"}


def test_a_proxy_may_be_of_another_kind(fetcher: Any) -> None:
    from pyspider.libs.fetchable import proxy_of

    assert proxy_of("h") == ("http", "h", 8080, "", "")
    assert proxy_of("socks5://u:p%40@h:1") == ("socks5", "h", 1, "u", "p@")
    page = fetcher.fetch(
        {"url": "http://h.example/", "fetch": {"proxy": "socks5://u@127.0.0.1:1"}, "taskid": "t"}
    )
    assert "127.0.0.1" in page["error"]


def test_a_url_may_be_bytes() -> None:
    assert instance().crawl("http://h/\u00e9".encode())["url"] == "http://h/%C3%A9"


CURL = [
    ("curl http://h/", {}),
    ("curl 'http://h/' -H 'X-A: a: b' -H 'X-B;'", {"headers": {"X-A": "a: b", "X-B": ""}}),
    ("curl http://h/ -XPUT -d a=1 --data b=2", {"method": "PUT", "data": "a=1&b=2"}),
    ("curl http://h/ --data-raw $'a\\'b\\n\\u00e9'", {"data": "a'b\n\u00e9"}),
    ("curl http://h/ --data-raw $'-----x\\r\\n'", {"data": "-----x\r\n"}),
    (
        "curl http://h/ -d 'costs $' -A 'it''s'",
        {"data": "costs $", "headers": {"User-Agent": "its"}},
    ),
    (
        "curl -b 'a=1; b=2' http://h/ --compressed",
        {"headers": {"Cookie": "a=1; b=2"}, "use_gzip": True},
    ),
    (
        "curl -u me:word -e http://r/ http://h/",
        {"headers": {"Authorization": "Basic bWU6d29yZA==", "Referer": "http://r/"}},
    ),
    ("curl -G -d a=1 --data-urlencode 'b=c d' http://h/", {"params": "a=1&b=c%20d"}),
    ("curl -sSLkI --url http://h/", {"method": "HEAD", "validate_cert": False}),
    ("curl http://h/ -F a=1", {"files": [("a", (None, "1"))]}),
    (
        "curl http://h/ --json '{}'",
        {
            "data": "{}",
            "headers": {"Content-Type": "application/json", "Accept": "application/json"},
        },
    ),
    ("curl http://h/ -x socks5://p:1 -m 3.5", {"proxy": "socks5://p:1", "timeout": 3.5}),
]


@pytest.mark.parametrize(("command", "arguments"), CURL)
def test_a_curl_command_means_what_it_says(command: str, arguments: dict[str, Any]) -> None:
    from pyspider.libs.curl_command import curl_to_arguments

    assert curl_to_arguments(command) == {"urls": ["http://h/"], **arguments}


@pytest.mark.parametrize(
    "command",
    [
        "curl",
        "curl http://h/ --unknown x",
        "curl http://h/ -d @file",
        "curl http://h/ -F a=@file",
        "curl http://h/ -b cookies.txt",
        "curl http://h/ -H nothing",
        "curl http://h/ -m soon",
        "curl 'http://h/",
    ],
)
def test_a_curl_command_that_crawl_has_nothing_for_is_refused(command: str) -> None:
    with pytest.raises(TypeError, match="curl"):
        instance().crawl(f"{command} ")
