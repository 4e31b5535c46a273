"""A walk through a page: what it says is done in its order, in one folder."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.lasting import SITE, UP, is_lasting, is_there, running
from tests.docs.not_run import entry_of
from tests.docs.pages import Block, PageCommand, blocks, commands, read
from tests.docs.shell import Shell
from tests.support.waiting import eventually

PATIENCE = 180.0  # seconds until what is started must be there


@dataclass(frozen=True)
class Ground:
    """What a walk has under its feet.

    Attributes:
        folder: where it takes place.
        renamed: what the pages call something -> what it is called here.
        typed: beginning of a command -> what a reader types while it runs.
        before: page -> command that makes what the page takes for granted.
    """

    folder: Path
    renamed: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)

    def here(self, text: str) -> str:
        """Return a text of the pages as it must be said here; long names come first."""
        for name in sorted(self.renamed, key=len, reverse=True):
            text = text.replace(name, self.renamed[name])
        return text

    def typed_in(self, command: str) -> str:
        """Return what is typed while a command runs."""
        return "".join(text for said, text in self.typed.items() if command.startswith(said))


def walk(page: str, ground: Ground) -> None:
    """Do what a page says, from the first block to the last, and end what was started.

    Raises:
        AssertionError: a command failed; it names page, line and output.
    """
    with Shell(ground.folder, _environ(ground.folder)) as shell:
        if page in ground.before:
            _do(PageCommand(page, 0, ground.before[page]), ground, shell)
        for block in blocks(read(page)):
            _write(block, ground)
            for command in commands(page, block):
                if entry_of(command) is None:
                    _do(command, ground, shell)
        for lasting in reversed(shell.beside):
            _interrupt(lasting, shell)


def _write(block: Block, ground: Ground) -> None:
    if block.file:
        (ground.folder / block.file).write_text(ground.here(block.text))


def _do(command: PageCommand, ground: Ground, shell: Shell) -> None:
    here = ground.here(command.text)
    if is_lasting(here):
        _start(command, here, shell)
        return
    code, printed = shell.run(here, ground.typed_in(command.text))
    assert code == 0, f"{command}\nended with {code}:\n{printed}"
    if command.output is not None:
        assert printed == command.output, f"{command}\nprinted:\n{printed}"


def _start(command: PageCommand, here: str, shell: Shell) -> None:
    if here.startswith(UP):
        for earlier in [each for each in shell.beside if each.startswith(UP)]:
            _interrupt(earlier, shell)  # as the page said
    before = running(shell.folder)
    log = shell.start(here)
    try:
        eventually(lambda: is_there(here, shell.folder, log, before), within=PATIENCE)
    except AssertionError as error:
        raise AssertionError(f"{command}\nstarted nothing:\n{log.read_text()}") from error


def _interrupt(command: str, shell: Shell) -> None:
    code = shell.interrupt(command)
    assert code == 0 or command.startswith(SITE), f"{command}\nended with {code} after Ctrl-C"


def _environ(folder: Path) -> dict[str, str]:
    """Return the environment of somebody who has just opened a terminal."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if "PYSPIDER" not in name}
    return {**kept, "PATH": path, "HOME": str(folder), "COLUMNS": "200"}
