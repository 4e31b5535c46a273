"""The commands of ``user``: passwords come from stdin, faults change nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyspider_zk.cli.main import cli
from pyspider_zk.webui.users import Role, read_users

PASSWORD = "correct horse"  # noqa: S105 - a test's


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


def run(path: Path, *words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(cli, ["user", *words, "--file", str(path)], input=stdin)


def test_a_user_is_added_listed_changed_and_removed(path: Path) -> None:
    added = run(path, "set", "ann", "--role", "admin", stdin=f"{PASSWORD}\n")
    assert (added.exit_code, PASSWORD in added.output) == (0, False)
    assert run(path, "list").output == "ann\tadmin\n"
    assert run(path, "set", "ann", "--role", "viewer", "--keep-password").exit_code == 0
    assert read_users(path).users["ann"].role is Role.VIEWER
    assert run(path, "remove", "ann").exit_code == 0
    assert run(path, "list").output == ""


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["set", "ann", "--role", "admin"], "short\n", "from 8 to 1024"),
        (["set", "ann", "--role", "admin"], "", "from 8 to 1024"),
        (["set", "a:b", "--role", "admin"], f"{PASSWORD}\n", "no colon"),
        (["set", "ann", "--role", "admin"], b"correct h\xf6rse\n", "must be text in UTF-8"),
        (["set", "ann", "--role", "king"], f"{PASSWORD}\n", "king"),
        (["set", "ann", "--role", "admin", "--keep-password"], "", "no user 'ann'"),
        (["remove", "ann"], "", "no user 'ann'"),
        (["list"], "", "pyspider-zk user set"),
    ],
)
def test_a_fault_is_named_and_makes_no_file(
    path: Path, words: list[str], stdin: str | bytes, said: str
) -> None:
    done = run(path, *words, stdin=stdin)
    assert done.exit_code == 2
    assert said in done.output
    assert not path.exists()


def test_without_a_file_it_says_how_to_name_one() -> None:
    done = CliRunner().invoke(cli, ["user", "list"])
    assert done.exit_code == 2
    assert "--file, or the setting users" in done.output


def test_a_password_is_no_argument(path: Path) -> None:
    done = run(path, "set", "ann", "--role", "admin", PASSWORD, stdin=f"{PASSWORD}\n")
    assert done.exit_code == 2
    assert not path.exists()
