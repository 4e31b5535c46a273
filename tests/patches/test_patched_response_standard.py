"""html5lib's tests of encodings, from the source of tinyhtml5; needs the package index."""

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import webencodings

pytestmark = pytest.mark.slow

LOCK = Path(__file__).resolve().parents[2] / "requirements/test.txt"


def cases(folder: Path) -> Iterator[tuple[bytes, str]]:
    """Give each page with Python's name of the encoding that it is in."""
    with tarfile.open(next(folder.glob("tinyhtml5-*.tar.gz"))) as archive:
        for member in archive:
            if re.search(r"/tests/encoding/[^/]*\.dat$", member.name):
                data = archive.extractfile(member)
                assert data
                for case in data.read().split(b"#data\n")[1:]:
                    page, label = case.split(b"\n#encoding\n")
                    encoding = webencodings.lookup(label.split(b"\n")[0].decode())
                    assert encoding
                    yield page, encoding.codec_info.name


def test_a_page_is_in_the_encoding_that_the_standard_finds(tmp_path: Path) -> None:
    from pyspider.libs.response import rebuild_response

    locked = re.search(r"^tinyhtml5==.*\n( +--hash=.*\n)+", LOCK.read_text(), re.MULTILINE)
    assert locked
    (tmp_path / "requirements.txt").write_text(locked[0])
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--no-binary=tinyhtml5", "--no-build-isolation", "--requirement=requirements.txt"]
    subprocess.run(command, cwd=tmp_path, check=True)
    seen = 0
    for content, encoding in cases(tmp_path):
        page = rebuild_response({"url": "http://x/", "content": content, "headers": {}})
        assert page.text == content.decode(encoding, "replace").removeprefix("\ufeff"), content
        any_will_do = content.isascii() and (encoding == "cp1252" or len(content) > 1024)
        assert any_will_do or page.encoding == encoding, content
        seen += 1
    assert seen >= 80
