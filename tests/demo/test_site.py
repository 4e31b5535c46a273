"""The site that counts what is asked for."""

import http.client
from urllib.parse import urlsplit

import pytest

from pyspider_zk.demo.site import Site, repeats


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.html").write_text("<title>A</title>", encoding="utf-8")
    with Site(tmp_path) as site:
        yield site


def get(site, *paths):
    link = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=10)
    answers = []
    for path in paths:
        link.request("GET", path)
        answer = link.getresponse()
        answers.append((answer.status, answer.read()))
    link.close()
    return answers


def test_files_are_served_over_one_connection(site):
    answers = get(site, "/a.html", "/a.html")

    assert answers == [(200, b"<title>A</title>")] * 2


def test_requests_are_counted_by_path(site):
    get(site, "/a.html", "/a.html", "/none.html")

    assert site.requests() == {"/a.html": 2, "/none.html": 1}
    assert repeats(site.requests()) == 1


def test_counting_can_begin_anew(site):
    get(site, "/a.html")

    site.forget()

    assert repeats(site.requests()) == 0
    assert not site.requests()
