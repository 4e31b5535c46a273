"""Secrets that stand in files: a variable or setting ``X_FILE`` names the file that holds X.

A command line can be read by every user of a machine, a file or an environment cannot.
"""

from collections.abc import Iterable, Mapping
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


def with_files(environ: Mapping[str, str], variables: Iterable[str]) -> dict[str, str]:
    """Return those variables whose values stand in files, with their values.

    Raises:
        ConfigError: with every file that cannot be used, and every value that is given twice.
    """
    found: dict[str, str] = {}
    faults: list[str] = []
    for name in variables:
        path = environ.get(f"{name}_FILE")
        if not path:
            continue
        try:
            found[name] = read_secret(path)
        except ValueError as error:
            faults.append(f"environment, {name}_FILE: {error}")
        if environ.get(name):
            faults.append(f"environment: give {name} or {name}_FILE, not both")
    if faults:
        raise ConfigError(faults)
    return found


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
