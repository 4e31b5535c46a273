"""Arguments of a fetch, as a script writes them: what they mean as a request, or what is wrong.

They come from calls of crawl(), from crawl_config, and from tasks that others made. Nothing that is
passed in is changed, and what is in order already stays as it is, so it may be judged again.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from http.cookiejar import Cookie
from http.cookies import Morsel
from typing import Any

from pyspider.libs.fetchable import Unfetchable, proxy_of
from pyspider.libs.storable import PACKED
from requests.models import RequestEncodingMixin

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NO_BODY = ("HEAD", "TRACE")

FETCH_TYPES = ("", "js", "phantomjs", "chrome", "puppeteer", "splash")


class BadArgument(Unfetchable):
    """An argument that no request can be made of; the message names it, and what would do."""


def joined(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call and those of @config, of which those in mappings win."""
    made = dict(arguments)
    for name, value in config.items():
        if isinstance(value, dict) and isinstance(made.get(name), dict):
            made[name] = {**made[name], **value}
        else:
            made.setdefault(name, value)
    return made


def read(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with what can be read only once as values, for many requests."""
    made = dict(arguments)
    if made.get("files"):
        made["files"] = [(name, _read_file(name, file)) for name, file in _pairs("files", made)]
    data = made.get("data")
    if hasattr(data, "read"):
        made["data"] = data.read()
    elif isinstance(data, Iterator):
        made["data"] = list(data)
    return made


def request_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a fetch as one request; any others stay. None is left alone.

    ``headers`` and ``cookies`` become mappings of text (or bytes that are none), ``data`` and
    ``files`` text or bytes, ``user_agent`` a header.

    Raises:
        BadArgument: a request cannot be made of one of them.
        BadProxy: nor of the proxy.
    """
    made = read(arguments)
    for name, rule in _RULES.items():
        if made.get(name) is not None:
            made[name] = rule(made)
    return _with_body(made)


def config_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a script's crawl_config as it joins requests.

    Raises:
        BadArgument: one of its values cannot be sent.
    """
    try:
        return request_of(config)
    except Unfetchable as error:
        raise BadArgument(f"crawl_config: {error}") from None


def told_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a scheduler is told of a crawl_config; as it is written if crawl() refuses it."""
    try:
        return request_of(config)
    except Unfetchable:
        return config


def _with_body(made: dict[str, Any]) -> dict[str, Any]:
    headers = dict(made.get("headers") or {})
    agent, files, data = made.pop("user_agent", None), made.pop("files", None), made.get("data")
    if files:
        made["data"], kind = _multipart(data, files)
        headers = _put(headers, "Content-Type", kind)
    elif data is not None:
        made["data"] = _body(data)
    if made.get("data"):
        made["method"] = made.get("method") or "POST"
        _refuse_if(made["method"] in _NO_BODY, "data", made["method"] + " sends none")
    if agent:
        headers = _put(headers, "User-Agent", _value("user_agent", agent))
    return made | ({"headers": headers} if headers else {})


def _put(headers: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {
        **{each: headers[each] for each in headers if each.lower() != name.lower()},
        name: value,
    }


def _refuse_if(is_wrong: object, field: str, why: str) -> None:
    if is_wrong:
        raise BadArgument(f"{field} cannot be sent: {why}")


def _pairs(field: str, arguments: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the pairs of a mapping, a list of pairs, or a jar of cookies."""
    given = arguments[field]
    if hasattr(given, "items"):
        return list(given.items())
    try:
        return [_pair(each) for each in given]
    except (TypeError, ValueError):
        why = f"it is a {type(given).__name__}, not a mapping or pairs"
        raise BadArgument(f"{field} cannot be sent: {why}") from None


def _pair(given: Any) -> tuple[Any, Any]:
    name, value = (given.name, given.value) if isinstance(given, Cookie) else given
    return name, value


def _headers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, tuple[str, Any]] = {}
    for given, value in _pairs("headers", arguments):
        name = _text("headers", given)
        field = f"headers[{name!r:.60}]"
        is_name = isinstance(name, str) and _TOKEN.fullmatch(name)
        _refuse_if(not is_name, field, "that is no name of a header")
        if value is not None and name.lower() != "content-length":  # which the body tells
            _add_header(made, name, _value(field, value), hasattr(arguments["headers"], "items"))
    return dict(made.values())


def _add_header(made: dict[str, tuple[str, Any]], name: str, value: Any, replaces: bool) -> None:
    key = name.lower()
    if key in made and not replaces:
        separator = "; " if key == "cookie" else ", "
        value = separator.join([made[key][1], value])
    made[key] = (name, value)


def _value(field: str, value: Any) -> str | bytes:
    text = _text(field, value)
    shown = text.decode("latin1") if isinstance(text, bytes) else text
    found = _CONTROL.search(shown)
    _refuse_if(found, field, f"it has {found and found[0]!a}, which would end the header")
    return text.strip(b" \t" if isinstance(text, bytes) else " \t")  # type: ignore[arg-type]


def _text(field: str, value: Any) -> Any:
    """Return a text, or bytes that are none in UTF-8."""
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(value)
    kind = type(value).__name__
    _refuse_if(not isinstance(value, str), field, f"it is a {kind}, not a text, bytes or number")
    return str(value)


def _cookies(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = arguments["cookies"]
    if isinstance(given, (str, bytes)):
        text = _text("cookies", given)
        pairs = [each.partition("=")[::2] for each in text.split(";") if each.strip()]
        return {name.strip(): _value("cookies", value) for name, value in pairs}
    made = {}
    for key, value in _pairs("cookies", arguments):
        name = _text("cookies", key)
        field = f"cookies[{name!r:.60}]"
        is_name = isinstance(name, str) and name.strip() and not set(name) & set(";=")
        _refuse_if(not is_name or _CONTROL.search(name), field, "that is no name of a cookie")
        if value is not None:
            made[name] = _cookie(field, value)
    return made


def _cookie(field: str, value: Any) -> str | bytes:
    made = _value(field, value.coded_value if isinstance(value, Morsel) else value)
    ends = b";" if isinstance(made, bytes) else ";"
    _refuse_if(ends in made, field, "its ';' would end it; %3B does not")  # type: ignore[operator]
    return made


def _method(arguments: Mapping[str, Any]) -> str:
    name = _text("method", arguments["method"])
    is_name = isinstance(name, str) and _TOKEN.fullmatch(name)
    _refuse_if(not is_name, "method", f"{name!r:.60} is no name of a method")
    _refuse_if(name.upper() == "CONNECT", "method", "CONNECT is for proxies")
    return str(name.upper())


def _body(data: Any) -> str | bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, str):
        return data.encode() if data.startswith(PACKED) else data
    if not data:
        return ""
    for name, value in _form(data):
        is_nested = isinstance(value, Mapping)
        _refuse_if(is_nested, f"data[{name!r:.60}]", "a form has no mappings in it; json.dumps has")
    return str(RequestEncodingMixin._encode_params(_form(data)))


def _form(data: Any) -> list[tuple[Any, Any]]:
    try:
        return _pairs("data", {"data": data})
    except BadArgument as error:
        raise BadArgument(f"{error}; json.dumps makes a text of it, with a Content-Type") from None


def _multipart(data: Any, files: Any) -> tuple[bytes, str]:
    _refuse_if(isinstance(data, (str, bytes)) and data, "data", "with files it must be a mapping")
    fields = _form(data) if data else []
    try:
        return RequestEncodingMixin._encode_files(files, fields)  # type: ignore[no-any-return]
    except (AttributeError, TypeError, ValueError) as error:
        raise BadArgument(f"files cannot be sent: {error}") from None


def _read_file(name: Any, file: Any) -> Any:
    if isinstance(file, (tuple, list)):
        head, content, *rest = file if len(file) > 1 else (name, *file)
        return (head, content.read() if hasattr(content, "read") else content, *rest)
    if hasattr(file, "read"):
        path = getattr(file, "name", "")
        return (
            re.split(r"[/\\]", path)[-1] if isinstance(path, str) and path else name,
            file.read(),
        )
    return file


def _seconds(field: str) -> Callable[[Mapping[str, Any]], float]:
    def rule(arguments: Mapping[str, Any]) -> float:
        value = arguments[field]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_time = is_number and math.isfinite(value) and 0 < value < _LONGEST
        _refuse_if(not is_time, field, f"{value!r:.60} is no number of seconds")
        return value  # type: ignore[no-any-return]

    return rule


def _one_of(field: str, words: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
    def rule(arguments: Mapping[str, Any]) -> Any:
        value = arguments[field]
        known = ", ".join(filter(None, words))
        _refuse_if(value not in words, field, f"{value!r:.60} is unknown; there are {known}")
        return value

    return rule


def _redirects(arguments: Mapping[str, Any]) -> int:
    value = arguments["max_redirects"]
    is_count = isinstance(value, int) and value >= 0
    _refuse_if(not is_count, "max_redirects", f"{value!r:.60} is no number of redirects")
    return int(value)


def _proxy(arguments: Mapping[str, Any]) -> Any:
    value = arguments["proxy"]
    is_known = isinstance(value, (str, bool))
    _refuse_if(not is_known, "proxy", "it must be an address, such as host:8080, or False")
    if value and isinstance(value, str):
        proxy_of(value)
    return value


_LONGEST = 10**6
"""Seconds; libcurl counts milliseconds in 31 bits."""

_RULES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "method": _method,
    "headers": _headers,
    "cookies": _cookies,
    "timeout": _seconds("timeout"),
    "connect_timeout": _seconds("connect_timeout"),
    "max_redirects": _redirects,
    "proxy": _proxy,
    "fetch_type": _one_of("fetch_type", FETCH_TYPES),
    "js_run_at": _one_of("js_run_at", ("document-start", "document-end")),
}
