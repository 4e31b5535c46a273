"""A reader's terminal: bash in a folder, with the variables of the commands before."""

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.crawling_cluster import children

_END = "the command ended with code"
_PREAMBLE = """
set -m  # what runs beside gets Ctrl-C, as in a terminal of its own
curl() { command curl --fail-with-body --silent --show-error "$@"; }
"""


class Shell:
    """Runs commands one after the other. Threads: one.

    Args:
        folder: where they run.
        environ: what the programs find in their environment.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._environ = dict(environ)
        self._bash: subprocess.Popen[str] | None = None
        self._beside: dict[str, int] = {}

    def __enter__(self) -> "Shell":
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],  # noqa: S607 - the reader's
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # no terminal: what asks for a password reads what is typed
        )
        self._write(_PREAMBLE)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._bash is not None
        for pid in children(self._bash.pid):  # what a failure left, each in a group of its own
            os.killpg(pid, signal.SIGKILL)
        self._bash.kill()
        self._bash.communicate()

    @property
    def beside(self) -> list[str]:
        """The commands that still run."""
        return list(self._beside)

    def run(self, command: str, typed: str = "") -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it printed.

        Args:
            typed: what is typed while it runs.
        """
        (self.folder / ".typed").write_text(typed)
        self._write(f"{{ {command}\n}} < .typed; printf '\\n%s %s\\n' '{_END}' $?\n")
        printed = []
        for line in self._lines():
            if line.startswith(_END):
                return int(line.removeprefix(_END)), "".join(printed)[:-1]  # our own newline
            printed.append(line)
        raise AssertionError("".join(["the shell ended:\n", *printed]))

    def start(self, command: str) -> Path:
        """Run a command beside the next ones; return the file that its output goes to."""
        log = self.folder / f".beside-{len(list(self.folder.glob('.beside-*')))}"
        log.touch()
        without_comment = command.partition(" # ")[0]
        code, pid = self.run(f"{without_comment} > {log.name} 2>&1 &\necho $!")
        assert code == 0, pid
        self._beside[command] = int(pid)
        return log

    def interrupt(self, command: str) -> int:
        """Press Ctrl-C where a command runs; return its exit code once it ended."""
        pid = self._beside.pop(command)
        os.killpg(pid, signal.SIGINT)
        return self.run(f"wait {pid}")[0]

    def _write(self, text: str) -> None:
        assert self._bash is not None
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    def _lines(self) -> Iterable[str]:
        assert self._bash is not None
        assert self._bash.stdout is not None
        return self._bash.stdout
