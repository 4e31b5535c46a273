"""Values of settings: how each is read from text or JSON, and what it may be."""

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from urllib.parse import urlsplit

from pyspider_zk.secret_files import check_cluster_secret

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?")
_HOST_NAME = re.compile(r"[0-9a-f:]+|[\w.-]+")
_ORIGIN = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?")
_WEBHOOK = re.compile(rf"{_ORIGIN.pattern}(/[!-~]*)?", re.ASCII)
_LONE = "\ud800-\udfff"  # bytes of the environment that are not UTF-8; nothing could record them
_READER = re.compile(rf"digest:[^:,\s{_LONE}]+:[A-Za-z0-9+/]{{27}}=|sasl:[^:@/,\s{_LONE}]+")
_LISTENING = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def converted(name: str, kind: type, value: object) -> object:
    """Return the value of a setting, whose default is of a kind.

    Raises:
        ValueError: it cannot be; the message repeats no secret.
    """
    return _BY_NAME.get(name, _BY_KIND.get(kind, _text))(value)


def is_address(text: str) -> bool:
    """Return whether a text is a host, with or without a port."""
    found = _HOST.fullmatch(text)
    return found is not None and int(found["port"] or 2181) > 0 and _is_url(f"//{text}")


def is_listening(text: str) -> bool:
    """Return whether a text is a host and a port."""
    return _LISTENING.fullmatch(text) is not None and _is_url(f"//{text}")


def _is_url(text: str) -> bool:
    """Return whether a text that looks like a URL is one.

    What stands in brackets may be no address, and a port may be above 65535.
    """
    try:
        _ = urlsplit(text).port
    except ValueError:
        return False
    return True


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {value!r}")
    return value.strip()


def _utf8(value: object) -> str:
    """Take a text that others must be able to read; the path of a file may be any bytes."""
    text = _text(value)
    if re.search(f"[{_LONE}]", text):
        raise ValueError(f"must be text in UTF-8, not {value!r:.80}")
    return text


def _secret(value: object) -> str:
    """Take a text as it is, and say nothing of what it is instead."""
    if not isinstance(value, str) or re.search(f"[{_LONE}]", value):
        raise ValueError("must be text in UTF-8")
    return value


def _cluster_secret(value: object) -> str:
    """Take a secret that can be one, or none; it is not repeated."""
    secret = _secret(value)
    return check_cluster_secret(secret) if secret else ""


def _token(value: object) -> str:
    """Take a secret that can be sent in a header, or none; it is not repeated."""
    token = _cluster_secret(value)
    if not token.isascii() or token != token.strip():
        raise ValueError(
            "must be ASCII without a space at either end, because scrapers send it in a header:"
            " make one with `openssl rand -hex 32`"
        )
    return token


def _webhook(value: object) -> str:
    """Take a URL that can be one, or none; it is not repeated."""
    url = _secret(value)
    if url and not (_WEBHOOK.fullmatch(url) and _is_url(url)):
        raise ValueError("must be a URL such as https://alerts.example.org/hook, without a login")
    return url


def _whole(value: object) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise ValueError(f"must be a whole number, not {value!r}")
    return int(str(value))


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not re.fullmatch(r"\d+(\.\d+)?", str(value)):
        raise ValueError(f"must be a number of seconds, not {value!r}")
    return float(str(value))


def _yes_or_no(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in _WORDS:
        raise ValueError(f"must be true or false, not {value!r}")
    return _WORDS[word]


def _list_of(what: str, form: re.Pattern[str], named: str) -> Callable[[object], tuple[str, ...]]:
    """Return what reads a list of texts of one form."""

    def read(value: object) -> tuple[str, ...]:
        found = _listed(value, what)
        for each in found:
            if not form.fullmatch(each):
                raise ValueError(f"{each!r} must be {named}")
        return found

    return read


def _host_names(value: object) -> tuple[str, ...]:
    lowered = [name.lower() for name in _listed(value, "host names")]
    return _list_of("host names", _HOST_NAME, "a host name without a port")(lowered)


def _networks(value: object) -> tuple[str, ...]:
    networks = _listed(value, "networks")
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            raise ValueError(f"must be addresses or networks such as 10.0.0.0/8: {error}") from None
    return networks


def _proxies(value: object) -> tuple[str, ...]:
    networks = _networks(value)
    everybody = next((each for each in networks if not ip_network(each).prefixlen), None)
    if everybody:
        raise ValueError(f"{everybody} is everybody, who could then claim any address")
    return networks


def _listed(value: object, what: str) -> tuple[str, ...]:
    """Read a list, or a text with commas."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError(f"must be a list of {what}, not {value!r}")
    return tuple(str(each).strip() for each in given if each != "")


_BY_KIND: Mapping[type, Callable[[object], object]] = {
    bool: _yes_or_no,
    int: _whole,
    float: _seconds,
}
_BY_NAME: Mapping[str, Callable[[object], object]] = {
    **dict.fromkeys(("name", "advertise", "viewer_username", "username"), _utf8),
    **dict.fromkeys(("viewer_password", "password"), _secret),
    "trusted_origins": _list_of("origins", _ORIGIN, "an origin such as https://crawl.example.org"),
    "trusted_hosts": _list_of("names", _HOST, "a name such as crawl.example.org"),
    "trusted_proxies": _proxies,
    "readers": _list_of(
        "identities", _READER, "digest:NAME:HASH or sasl:NAME, as in ZooKeeper's ACLs"
    ),
    "forbidden_networks": _networks,
    "renderer_networks": _networks,
    "metrics_token": _token,
    "alert_webhook": _webhook,
    "secret": _cluster_secret,
    "xmlrpc_names": _host_names,
}
