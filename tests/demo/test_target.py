"""What the demo crawls."""

import pytest

from pyspider_zk.demo.site import Site
from pyspider_zk.demo.target import documentation, foreign, ours
from pyspider_zk.errors import ClusterError, MissingService


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "index.html").write_text('<a href="sub/a.html">a</a>', encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_text("a", encoding="utf-8")
    return tmp_path


def test_a_folder_is_served_and_walked(folder):
    with ours(folder) as target:
        assert target.parts.names == ("docs", "docs_sub")
        assert target.total == 2
        assert target.duplicate_fetches() == 0
        assert target.missing({target.parts.start}) == {target.parts.site + "sub/a.html"}


def test_a_foreign_site_is_neither_walked_nor_counted(folder):
    with Site(folder) as site:
        target = foreign(site.url + "index.html")

    assert target.parts.names == ("docs", "docs_sub")
    assert target.total is None
    assert target.missing(set()) is None
    assert target.duplicate_fetches() is None


def test_a_folder_without_a_start_page_is_refused(tmp_path):
    with pytest.raises(ClusterError, match=r"no index\.html"), ours(tmp_path):
        pass


@pytest.mark.parametrize("start", ["file:///etc/passwd", "index.html", "http://127.0.0.1:1/"])
def test_a_start_that_does_not_answer_over_http_is_refused(start):
    with pytest.raises(ClusterError):
        foreign(start)


def test_the_newest_documentation_is_taken(tmp_path):
    for name in ("python3.9", "python3.13", "python3.2", "python3-lxml", "python3.14-venv"):
        (tmp_path / name / "html").mkdir(parents=True)
        (tmp_path / name / "html" / "index.html").touch()

    assert documentation(tmp_path) == tmp_path / "python3.13" / "html"


def test_a_machine_without_documentation_is_told_what_to_install(tmp_path):
    with pytest.raises(MissingService, match="apt install python3-doc"):
        documentation(tmp_path)
