"""What a failed command says holds no password."""

import pytest

from pyspider_zk.cli.failure import Failure, masked
from pyspider_zk.errors import ClusterError


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
    ],
)
def test_urls_are_told_without_their_passwords(said: str, told: str) -> None:
    assert masked(said) == told


def test_what_it_quotes_is_not_obeyed_by_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Failure(ClusterError("member \x1b[2J\nis away"), debug=True).show()
    told = capsys.readouterr().err
    assert told.endswith("Error: member \\x1b[2J\nis away\n")
    assert "\x1b" not in told
