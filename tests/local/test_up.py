"""What `up` decides, without any process."""

import io
import os
import signal

import pytest
from rich.console import Console

from pyspider_zk.errors import Mismatch, Unavailable
from pyspider_zk.local.up import _screen, follow, interrupts


class Wish:
    def __init__(self, answer):
        self.answer = answer

    def get(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Herd:
    """As much of a cluster as `follow` sees."""

    schedulers = (0, 1, 2)

    def __init__(self):
        self.asked = []

    def scale(self, schedulers):
        self.asked.append(schedulers)


def test_a_wish_is_followed():
    herd = Herd()

    follow(herd, Wish(5))

    assert herd.asked == [5]


def test_without_a_new_wish_nothing_changes():
    herd = Herd()

    for answer in (None, 3, Unavailable("away")):
        follow(herd, Wish(answer))

    assert herd.asked == []


def test_ctrl_c_is_counted_and_then_given_back():
    before = signal.getsignal(signal.SIGINT)

    with interrupts() as asked:
        assert not asked.any
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.any
        assert not asked.several
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.several

    assert signal.getsignal(signal.SIGINT) is before


class Lines:
    def __init__(self, *answers):
        self.answers = list(answers)

    def line(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    table = line


def test_without_a_terminal_each_change_is_a_line():
    out = io.StringIO()
    view = Lines(Mismatch("none"), "1 member", "1 member", Unavailable("away"), "1 member")

    with _screen(view, Console(file=out)) as show:
        for _ in range(5):
            show()

    assert out.getvalue().splitlines() == [
        "The schedulers are starting ...",
        "1 member",
        "away",
        "1 member",
    ]


@pytest.mark.parametrize("fault", ["[/x] is away", "[red] is away"])
def test_on_a_terminal_an_error_is_shown_as_it_is(fault):
    out = io.StringIO()

    with _screen(Lines(Unavailable(fault)), Console(file=out, force_terminal=True)) as show:
        show()

    assert fault in out.getvalue()


def test_on_a_terminal_the_picture_is_drawn_in_place():
    out = io.StringIO()

    with _screen(
        Lines("1 member", "2 members"), Console(file=out, force_terminal=True, highlight=False)
    ) as show:
        show()
        show()

    assert "2 members" in out.getvalue()
