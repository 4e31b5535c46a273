"""Requests to the HTTP API, right and wrong ones, drawn by schemathesis from its document."""

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import requests
import schemathesis

from tests.fuzz.mutate import pick
from tests.fuzz.spare import FUZZED
from tests.fuzz.web import Case
from tests.support.api_requests import draw_requests

AT_ONCE = 25  # requests that are drawn for an operation at a time
REUSED = 20  # times that a drawn request is used; the mutations differ each time

_BODY = f'{{"operation": "rate", "names": ["{FUZZED}0"], "arguments": {{"rate": 5, "burst": 5}}}}'
_JOB = ("POST", "/api/v1/batches", {"Content-Type": "application/json"}, _BODY.encode())


def api_cases(url: str) -> Callable[[Random], Case]:
    """Return what draws requests to the API at this URL of a web UI.

    A document that schemathesis reads makes them; a batch is drawn whenever the former is used up.
    """
    document = schemathesis.openapi.from_url(f"{url}api/v1/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    stock: list[Case] = []

    def draw(chance: Random) -> Case:
        if not stock:
            made = _batch(pick(chance, operations), chance.randrange(2**32), url) or [_JOB]
            stock.extend(made * REUSED)
            chance.shuffle(stock)
        return stock.pop()

    return draw


def _batch(operation: Any, number: int, url: str) -> list[Case]:
    made: list[Case] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of schemathesis's own strategies
        draw_requests(operation, number, AT_ONCE, lambda case: made.append(_case(case, url)))
    return made


def _case(case: Any, url: str) -> Case:
    sent = case.as_transport_kwargs(base_url=f"{url}api/v1")
    known = {"method", "url", "headers", "params", "data", "json", "cookies", "files"}
    asked = requests.Request(**{key: value for key, value in sent.items() if key in known})
    ready = asked.prepare()
    body = ready.body or b""
    headers = {
        str(name): value if isinstance(value, str) else value.decode("latin-1")
        for name, value in ready.headers.items()
        if name.lower() not in ("content-length", "host", "connection", "user-agent")
    }
    raw = body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass")
    return str(ready.method), ready.path_url, headers, raw
