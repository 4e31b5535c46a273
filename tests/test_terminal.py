"""What comes from outside is shown on a terminal, and never obeyed."""

import io

import pytest
from rich.console import Console

from pyspider_zk.terminal import cell, escaped, masked, say, tell

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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("at redis://u:HIDDEN@h/0, again", "at redis://u:***@h/0, again"),
        ("redis+sentinel://:HID@DEN@h,i:1/s/0", "redis+sentinel://:***@h,i:1/s/0"),
        (
            "redis+sentinel://u:HIDDEN@h/s?sentinel_username=v&sentinel_password=HIDDEN is bad",
            "redis+sentinel://u:***@h/s?sentinel_username=v&sentinel_password=*** is bad",
        ),
        (
            "redis+sentinel://h/s?sentinel_password=H@D",
            "redis+sentinel://h/s?sentinel_password=***",
        ),
        ("nothing://h/to?hide=1&p=2", "nothing://h/to?hide=1&p=2"),
        (
            "@" + "a://:" * 10**6,
            "@" + "a://:" * 10**6,
        ),  # for hours, if each began a look of its own
    ],
)
def test_urls_are_told_without_their_passwords(said: str, told: str) -> None:
    assert masked(said) == told
