"""The user file: hashed, private, replaced at once."""

import json
import multiprocessing
from pathlib import Path

import pytest
from werkzeug.security import check_password_hash

from pyspider_zk.errors import BadRequest, ConfigError, NotFound
from pyspider_zk.webui.users import Role, change_users, read_users, remove_user

PASSWORD = "correct horse"  # noqa: S105 - a test's


@pytest.fixture
def path(tmp_path: Path) -> Path:
    change_users(tmp_path / "users.json", Role.ADMIN, "ann", PASSWORD)
    return tmp_path / "users.json"


def test_a_password_is_kept_as_its_hash_in_a_private_file(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in path.read_text()
    ann = read_users(path).users["ann"]
    assert ann.role is Role.ADMIN
    assert check_password_hash(ann.password, PASSWORD)
    assert ann.password not in repr(read_users(path))
    assert read_users(path).key not in repr(read_users(path))


def test_users_are_added_changed_and_removed(path: Path) -> None:
    change_users(path, Role.VIEWER, "eve", PASSWORD)
    before = read_users(path)
    change_users(path, Role.OPERATOR, "eve", None)
    after = read_users(path)
    assert after.users["eve"].role is Role.OPERATOR
    assert after.users["eve"].password == before.users["eve"].password
    assert after.key == before.key
    remove_user(path, "ann")
    assert list(read_users(path).users) == ["eve"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "x" * 65])
def test_a_name_that_nobody_can_have_changes_nothing(path: Path, name: str) -> None:
    before = path.read_bytes()
    with pytest.raises(BadRequest, match="user's name"):
        change_users(path, Role.ADMIN, name, PASSWORD)
    assert path.read_bytes() == before


@pytest.mark.parametrize("password", ["", "short", "x" * 1025])
def test_a_password_has_a_length(path: Path, password: str) -> None:
    with pytest.raises(BadRequest, match="from 8 to 1024") as raised:
        change_users(path, Role.ADMIN, "ann", password)
    assert not password or password not in str(raised.value)


def test_who_is_not_there_is_not_removed_nor_given_a_role(path: Path) -> None:
    with pytest.raises(NotFound, match=r"'bob'.*ann"):
        remove_user(path, "bob")
    with pytest.raises(NotFound, match="'bob'"):
        change_users(path, Role.ADMIN, "bob", None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_users(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"users": {}}',
        '{"key": "short", "users": {}}',
        json.dumps({"key": "k" * 64, "users": {"ann": {"role": "king", "password": "scrypt:"}}}),
        json.dumps({"key": "k" * 64, "users": {"ann": {"role": "admin", "password": "plain"}}}),
        json.dumps({"key": "k" * 64, "users": {"ann": "admin"}}),
        "[" * 100_000,
    ],
)
def test_what_is_no_such_file_is_named_and_not_quoted(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"users: {path}") as raised:
        read_users(path)
    assert "plain" not in str(raised.value)


def test_a_missing_file_is_named_with_the_way_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pyspider-zk user set"):
        read_users(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="nowhere"):
        change_users(tmp_path / "nowhere" / "users.json", Role.ADMIN, "ann", PASSWORD)


def test_of_two_who_change_it_at_once_none_is_lost(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    names = [f"user{number}" for number in range(2)]
    arguments = [(path, Role.VIEWER, name, PASSWORD) for name in names]
    writers = [spawn.Process(target=change_users, args=each) for each in arguments]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(read_users(path).users) == ["ann", *names]
