"""Pyspider's own parts that listen: on loopback, and not for browsers."""

import http.client
import stat
import subprocess
import sys
import xmlrpc.client
from contextlib import closing
from pathlib import Path

import pytest

from tests.patches.spiders import DEADLINE, Spider

PHANTOMJS = """#!/bin/sh
echo "$@"
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scheduler", "fetcher"])
def test_what_a_browser_can_be_made_to_send_is_refused(spider: Spider, kind: str) -> None:
    made = getattr(spider, kind)()
    spider.start(made)
    client = spider.serve(made)
    body = xmlrpc.client.dumps((), "_quit")
    for headers, status in (
        ({"Content-Type": "text/xml", "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/xml", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({}, 415),
    ):
        with closing(http.client.HTTPConnection("127.0.0.1", made.xmlrpc_port, timeout=60)) as link:
            link.request("POST", "/", body, headers)
            assert link.getresponse().status == status
    assert client.size() == 0


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ((), "127.0.0.1:25555"),
        (("--port", "1"), "127.0.0.1:1"),
        (("--host", "192.0.2.1"), "192.0.2.1:25555"),
    ],
)
def test_phantomjs_is_told_to_listen_on_loopback(
    tmp_path: Path, options: tuple[str, ...], address: str
) -> None:
    program = tmp_path / "phantomjs"
    program.write_text(PHANTOMJS)
    program.chmod(stat.S_IRWXU)
    command = [sys.executable, "-m", "pyspider.run", "phantomjs", "--phantomjs-path", str(program)]
    told = subprocess.check_output([*command, *options], cwd=tmp_path, timeout=DEADLINE, text=True)
    assert told.split()[-1] == address
