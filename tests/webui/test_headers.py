"""Browsers are told what not to do with each answer."""

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from pyspider_zk.webui.browsers import Headers, policy_for

PAGES = [
    "/",
    "/debug/p",
    "/results",
    "/cluster/",
    "/api/v1/batches",
    "/login/",
    "/dav/",
    "/clusterx",
]


def directives(policy: str) -> dict[str, list[str]]:
    split = [each.split() for each in policy.split(";")]
    return {each[0]: each[1:] for each in split}


@pytest.mark.parametrize("path", PAGES)
def test_no_page_runs_code_of_others_or_its_own_markup(path: str) -> None:
    told = directives(policy_for(path))
    for kind in ("script-src", "style-src"):
        assert told.get(kind, told["default-src"]) == ["'self'"]
    assert told["object-src"] == told["base-uri"] == told["frame-ancestors"] == ["'none'"]
    assert told["form-action"] == ["'self'"]


def test_a_crawled_page_runs_nothing_and_only_the_editor_frames_it() -> None:
    told = directives(policy_for("/blank.html"))
    assert told["default-src"] == ["'none'"]
    assert "script-src" not in told
    assert told["frame-ancestors"] == ["'self'"]


@pytest.mark.parametrize(
    ("cdn", "source"),
    [("//cdn.example.org/libs/", "cdn.example.org"), ("https://a.b:1/c", "https://a.b:1")],
)
def test_a_cdn_that_was_named_may_send_libraries(cdn: str, source: str) -> None:
    assert directives(policy_for("/", cdn))["script-src"] == ["'self'", source]
    assert source not in policy_for("/cluster/", cdn)


@pytest.mark.parametrize(
    ("path", "kept"), [("/", False), ("/queues", False), ("/static/x.js", True), ("/dav/", False)]
)
def test_no_cache_keeps_what_has_data(path: str, kept: bool) -> None:
    with Client(Headers(Response("x"))).get(path) as answer:
        assert ("no-store" in answer.headers.get("Cache-Control", "")) is not kept
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"


def test_what_the_application_says_stands() -> None:
    said = {"Content-Security-Policy": "sandbox"}
    with Client(Headers(Response("x", headers=said))).get("/") as answer:
        assert answer.headers.getlist("Content-Security-Policy") == ["sandbox"]
