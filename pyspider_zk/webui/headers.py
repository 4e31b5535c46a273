"""What browsers are told not to do with our answers."""

from flask import Flask, Response

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
        " form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""No code, style or frame from anywhere else, and none within a page."""


def restrict(flask_app: Flask) -> None:
    """Send the headers with each answer of an application."""
    flask_app.after_request(_add)


def _add(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response
