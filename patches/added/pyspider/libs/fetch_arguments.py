"""Arguments of a fetch, as a script writes them: what they mean as a request, or what is wrong.

They come from calls of crawl(), from crawl_config, and from tasks that others made. Nothing that is
passed in is changed, and what is in order already stays as it is, so it may be judged again.
"""

import functools
import math
import ntpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspider.libs import header_fields
from pyspider.libs.fetchable import Unfetchable, proxy_of
from pyspider.libs.header_fields import TOKEN, BadArgument, pairs, refuse_if
from pyspider.libs.storable import PACKED
from requests.models import RequestEncodingMixin

RENDERED = ("js", "phantomjs", "chrome", "puppeteer")
"""Fetch types of pages that a browser makes."""

_NO_BODY = ("HEAD", "TRACE")
_LONGEST = 10**6  # seconds; libcurl counts milliseconds in 31 bits
_FETCH_TYPES = ("", *RENDERED, "splash")
_RUN_AT = ("document-start", "document-end")


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
        files = pairs("files", made["files"])
        made["files"] = [(name, _read_file(name, file)) for name, file in files]
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
            made[name] = rule(name, made[name])
    return _with_headers(_with_body(made))


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
    files, data = made.pop("files", None), made.get("data")
    if files:
        made["data"], kind = _multipart(data, files)
        made["headers"] = _put(made.get("headers"), "Content-Type", kind)
    elif data is not None:
        made["data"] = _body(data)
    if made.get("data"):
        made["method"] = made.get("method") or "POST"
        refuse_if(made["method"] in _NO_BODY, "data", f"{made['method']} has none")
    return made


def _with_headers(made: dict[str, Any]) -> dict[str, Any]:
    agent = made.pop("user_agent", None)
    if agent:
        name = header_fields.field_value("user_agent", agent)
        made["headers"] = _put(made.get("headers"), "User-Agent", name)
    return made


def _put(headers: Mapping[str, Any] | None, name: str, value: Any) -> dict[str, Any]:
    others = {each: text for each, text in (headers or {}).items() if each.lower() != name.lower()}
    return {**others, name: value}


def _body(data: Any) -> str | bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, str):
        return data.encode() if data.startswith(PACKED) else data
    form = _form(data) if data else []
    for name, value in form:
        is_nested = isinstance(value, Mapping)
        refuse_if(is_nested, f"data[{name!r:.60}]", "a form has no mappings in it; json.dumps has")
    return str(RequestEncodingMixin._encode_params(form))


def _form(data: Any) -> list[tuple[Any, Any]]:
    try:
        return pairs("data", data)
    except BadArgument as error:
        raise BadArgument(f"{error}; json.dumps makes a text of it, with a Content-Type") from None


def _multipart(data: Any, files: Any) -> tuple[bytes, str]:
    refuse_if(isinstance(data, (str, bytes)) and data, "data", "with files it must be a mapping")
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
        path = getattr(file, "name", None)
        return ntpath.basename(path) if isinstance(path, str) else name, file.read()
    return file


def _method(field: str, value: Any) -> str:
    is_name = isinstance(value, str) and TOKEN.fullmatch(value)
    refuse_if(not is_name, field, f"{value!r:.60} is no name of a method")
    refuse_if(value.upper() == "CONNECT", field, "CONNECT is for proxies")
    return str(value.upper())


def _seconds(field: str, value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_time = is_number and math.isfinite(value) and 0 < value < _LONGEST
    refuse_if(not is_time, field, f"{value!r:.60} is no number of seconds")
    return value


def _count(field: str, value: Any) -> Any:
    is_count = isinstance(value, int) and value >= 0
    refuse_if(not is_count, field, f"{value!r:.60} is no number of redirects")
    return value


def _proxy(field: str, value: Any) -> Any:
    is_known = isinstance(value, (str, bool))
    refuse_if(not is_known, field, "it must be an address, such as host:8080, or False")
    if value and isinstance(value, str):
        proxy_of(value)
    return value


def _one_of(words: tuple[str, ...], field: str, value: Any) -> Any:
    known = ", ".join(filter(None, words))
    refuse_if(value not in words, field, f"{value!r:.60} is unknown; there are {known}")
    return value


_RULES: dict[str, Callable[[str, Any], Any]] = {
    "method": _method,
    "headers": header_fields.headers,
    "cookies": header_fields.cookies,
    "timeout": _seconds,
    "connect_timeout": _seconds,
    "max_redirects": _count,
    "proxy": _proxy,
    "fetch_type": functools.partial(_one_of, _FETCH_TYPES),
    "js_run_at": functools.partial(_one_of, _RUN_AT),
}
