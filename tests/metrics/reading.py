"""Requests to a port that serves metrics, and what a scrape tells."""

import http.client
import ssl
from collections.abc import Iterable
from email.message import Message
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pyspider_zk.metrics.families import FAMILIES, FREE, PREFIX, Family

BY_NAME = {each.full_name: each for each in FAMILIES}


class Series(NamedTuple):
    name: str
    labels: frozenset[tuple[str, str]]


Numbers = dict[Series, float]


def numbers(metrics: Iterable[Metric]) -> Numbers:
    """Return each number, by its name and labels."""
    return {
        Series(sample.name, frozenset(sample.labels.items())): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def parsed(text: str) -> Numbers:
    return numbers(text_string_to_metric_families(text))


def value(found: Numbers, family: Family, suffix: str = "", **labels: str) -> float:
    return found[Series(family.full_name + suffix, frozenset(labels.items()))]


def family_of(name: str) -> Family | None:
    """Return the family that a series belongs to; a histogram has series of several names."""
    names = [name, name.removesuffix("_created") + "_total"]
    names += [name.removesuffix(suffix) for suffix in ("_bucket", "_count", "_sum", "_created")]
    return next((BY_NAME[each] for each in names if each in BY_NAME), None)


def undeclared(found: Numbers) -> list[Series]:
    """Return series of ours that ``families`` does not declare, or not with these labels."""
    return [
        series for series in found if series.name.startswith(PREFIX) and not _is_declared(series)
    ]


def _is_declared(series: Series) -> bool:
    family = family_of(series.name)
    labels = {name: each for name, each in series.labels if name != "le"}
    return (
        family is not None
        and set(labels) == set(family.label_names)
        and all(labels[name] in values or values == FREE for name, values in family.labels)
    )


LOOPBACK = "127.0.0.1"


class Response(NamedTuple):
    status: int
    text: str
    headers: Message


def get(port: int, path: str, tls: ssl.SSLContext | None = None, **headers: str) -> Response:
    """Ask the port; an underscore in the name of a header stands for a dash."""
    kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    options = {"context": tls} if tls else {}
    link = kind("localhost", port, timeout=60, **options)
    try:
        link.request(
            "GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()}
        )
        answer = link.getresponse()
        return Response(answer.status, answer.read().decode(), answer.headers)
    finally:
        link.close()
