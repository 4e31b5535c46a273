"""Errors over HTTP as problem details (RFC 9457)."""

from http import HTTPStatus
from typing import Any

PROBLEM_TYPE = "application/problem+json"


def problem(status: HTTPStatus, detail: str, **more: Any) -> dict[str, Any]:
    """Return the body: what is wrong with which part, and the remedy.

    Args:
        status: the response's status.
        detail: the sentence for people.
        more: what programs may want to know, such as ``errors`` by field.
    """
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        **more,
    }
