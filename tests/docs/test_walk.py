"""A walk finds what is wrong with a page."""

from pathlib import Path

import pytest

from tests.docs import walk as walking
from tests.docs.walk import Ground, walk
from tests.support.ports import own_port
from tests.support.running_cluster import listens


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch):
    """Give the function that makes up what a page says."""

    def page(text: str) -> str:
        monkeypatch.setattr(walking, "read", lambda _page: text)
        return "a-page.md"

    return page


def sh(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```", ""])


def test_what_works_is_done_in_order(says, tmp_path: Path) -> None:
    page = says(
        "Write this to `a.txt`:\n\n```text\nhi\n```\n" + sh("b=$(cat a.txt)", "echo $b > c")
    )
    walk(page, Ground(tmp_path))
    assert (tmp_path / "c").read_text() == "hi\n"


@pytest.mark.parametrize("wrong", ["false", "no-such-program", "pyspider-zk no-such-command"])
def test_a_command_that_fails_is_named_with_its_line(says, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(AssertionError, match=f"a-page.md, line 3: {wrong}"):
        walk(says(sh("true", wrong, "true")), Ground(tmp_path))


def test_another_output_is_an_error(says, tmp_path: Path) -> None:
    walk(says("```console\n$ echo one\none\n```\n"), Ground(tmp_path))
    with pytest.raises(AssertionError, match="printed:\ntwo"):
        walk(says("```console\n$ echo two\none\n```\n"), Ground(tmp_path))


def test_names_are_replaced_the_longest_first(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"zk1": "A", "zk1:2181": "B"})
    assert ground.here("zk1:2181 zk1") == "B A"


def test_a_command_gets_what_is_typed(says, tmp_path: Path) -> None:
    walk(says(sh("read it", 'test "$it" = word')), Ground(tmp_path, typed={"read": "word\n"}))


def test_what_lasts_runs_beside_and_gets_ctrl_c(says, tmp_path: Path) -> None:
    port = own_port()
    serve = f"python3 -m http.server {port} --bind 127.0.0.1"
    walk(says(sh(serve, f"curl -o page http://127.0.0.1:{port}/")), Ground(tmp_path))
    assert "Directory listing" in (tmp_path / "page").read_text()
    assert not listens(f"http://127.0.0.1:{port}/")


def test_a_page_that_a_server_does_not_have_is_an_error(says, tmp_path: Path) -> None:
    port = own_port()
    serve = f"python3 -m http.server {port} --bind 127.0.0.1"
    with pytest.raises(AssertionError, match="404"):
        walk(says(sh(serve, f"curl http://127.0.0.1:{port}/none")), Ground(tmp_path))
