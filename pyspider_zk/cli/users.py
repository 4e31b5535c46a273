"""Commands of ``user``: who may log in to the web UI."""

import sys
from pathlib import Path
from typing import Any

import click

from pyspider_zk.cli.target import settings_of
from pyspider_zk.errors import ConfigError
from pyspider_zk.webui.users import Role, change_users, check_name, read_users, remove_user

_FILE = click.option(
    "--file",
    "given",
    type=click.Path(dir_okay=False, path_type=Path),
    help="the file of users; default: the setting users",
)


@click.group()
def user() -> None:
    """Manage the users of the web UI and their roles."""


@user.command("set")
@click.argument("name")
@click.option("--role", required=True, type=click.Choice([each.value for each in Role]))
@click.option("--keep-password", is_flag=True, help="change the role only")
@_FILE
@click.pass_obj
def set_user(
    options: dict[str, Any], name: str, role: str, keep_password: bool, given: Path | None
) -> None:
    """Add a user, or change one. Prompts for the password, or reads it from stdin.

    A viewer can read everything, an operator can also start, stop and delete projects, an admin
    can also edit and run scripts.
    """
    path = _path(options, given)
    check_name(name)
    change_users(path, Role(role), name, None if keep_password else _password(name))
    click.echo(f"{name} is {role} in {path}")


@user.command()
@click.argument("name")
@_FILE
@click.pass_obj
def remove(options: dict[str, Any], name: str, given: Path | None) -> None:
    """Remove a user and end their sessions."""
    path = _path(options, given)
    remove_user(path, name)
    click.echo(f"{name} is removed from {path}")


@user.command("list")
@_FILE
@click.pass_obj
def list_users(options: dict[str, Any], given: Path | None) -> None:
    """List the users and their roles."""
    for name, each in sorted(read_users(_path(options, given)).users.items()):
        click.echo(f"{name}\t{each.role}")


def _path(options: dict[str, Any], given: Path | None) -> Path:
    path = str(given or settings_of(options).users)
    if not path:
        raise ConfigError(["users: no file is named: give --file, or the setting users"])
    return Path(path)


def _password(name: str) -> str:
    """Prompt a person twice; read one line from a program.

    Raises:
        ConfigError: it is not UTF-8, as which browsers send it.
    """
    try:
        password = _typed(name) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
        password.encode()  # some locales let any byte pass, as half of a character
    except UnicodeError as error:
        raise ConfigError(["the password must be text in UTF-8"]) from error
    return password


def _typed(name: str) -> str:
    prompted: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    return prompted
