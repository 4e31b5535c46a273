"""Secrets that stand in files and URLs: a variable or setting ``X_FILE`` names the file of X.

A command line can be read by every user of a machine, a file or an environment cannot.
"""

from collections.abc import Iterable, MutableMapping
from pathlib import Path

from pyspider_zk.errors import ConfigError

LONGEST = 64 * 1024  # bytes; more is no secret but the wrong file

URL_VARIABLES = ("TASKDB", "PROJECTDB", "RESULTDB", "AMQP_URL")
"""pyspider's variables of its databases and its message queue; such a URL may hold a password."""


def read_secret(path: object) -> str:
    """Return what the file holds, without the end of its last line.

    Raises:
        ValueError: it cannot be read or holds no secret; says why, and nothing of what it holds.
    """
    if not isinstance(path, str) or not path:
        raise ValueError("must be the path of a file")
    try:
        with Path(path).open("rb") as file:
            held = file.read(LONGEST + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    return _text(path, held)


def take_from_files(environ: MutableMapping[str, str], variables: Iterable[str]) -> None:
    """Set those variables whose values stand in files, in place of the files' own.

    Raises:
        ConfigError: with every file that cannot be used, and every value that is given twice.
    """
    faults: list[str] = []
    for name in variables:
        path = environ.pop(f"{name}_FILE", "")
        if not path:
            continue
        if environ.get(name):
            faults.append(f"environment: give {name} or {name}_FILE, not both")
        try:
            environ[name] = read_secret(path)
        except ValueError as error:
            faults.append(f"environment, {name}_FILE: {error}")
    if faults:
        raise ConfigError(faults)


def without_password(url: str) -> str:
    """Return a URL without its password, and with no other options than those of TLS.

    Everything up to the last @ may be the password: one that is not %-encoded may hold any
    character.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or rest.startswith("/"):  # a file's path, which has no login
        return url
    rest, _, options = rest.partition("?") if "@" not in rest.partition("?")[2] else (rest, "", "")
    login, at, place = rest.rpartition("@")
    kept = "&".join(option for option in options.split("&") if option.startswith("ssl_"))
    return f"{scheme}://{login.partition(':')[0]}{at}{place}{'?' if kept else ''}{kept}"


def _text(path: str, held: bytes) -> str:
    if len(held) > LONGEST:
        raise ValueError(f"{path} holds more than {LONGEST:,} bytes: it must hold the secret only")
    try:
        secret = held.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8") from None
    if not secret or not secret.isprintable():
        raise ValueError(f"{path} must hold the secret in one line")
    return secret
