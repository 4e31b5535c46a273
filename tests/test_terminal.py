"""What comes from outside is shown on a terminal, and never obeyed."""

import io

import pytest
from rich.console import Console

from pyspider_zk.terminal import cell, escaped, say, tell

OBEYED = ["\x1b[2J", "\x9b2J", "\x1b]0;title\x07", "\r", "\b", "\u202e", "\ud800"]
MARKUP = ["[red]", "[/x]", ":smile:", "[fd00::5]:1"]


@pytest.mark.parametrize("hostile", OBEYED)
def test_control_characters_are_written_out(
    hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say(f"a{hostile}\nb")
    console = Console(file=io.StringIO())
    tell(console, f"a{hostile}b")
    assert cell(f"a{hostile}b").plain.isprintable()
    shown = capsys.readouterr().out.splitlines()
    assert [line.isprintable() for line in shown] == [True, True]
    assert console.file.getvalue() == f"{escaped(f'a{hostile}b')}\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", MARKUP)
def test_markup_is_text(text: str) -> None:
    console = Console(file=io.StringIO())
    tell(console, text)
    console.print(cell(text))
    assert console.file.getvalue() == f"{text}\n" * 2  # type: ignore[attr-defined]
