"""A message queue that is away is asked again later and later, and spoken of twice."""

import logging

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.back_off import LONGEST_PAUSE, BackOff

AWAY = Unavailable("nobody listens")
LOGGER = logging.getLogger("processor")
LONG = 60.0  # seconds that no test waits


@pytest.fixture
def back_off() -> BackOff:
    return BackOff(LOGGER, "work waits", grace=0, pause=LONGEST_PAUSE)


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records if record.name == LOGGER.name]


def test_each_outage_is_said_once_when_it_begins_and_once_when_it_ends(
    back_off: BackOff, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    back_off.answered()
    for _ in range(2):
        for _ in range(5):
            back_off.failed(AWAY)
        for _ in range(5):
            back_off.answered()
    assert levels(caplog) == [logging.WARNING, logging.INFO] * 2


def test_what_is_away_is_left_alone_until_it_answers(back_off: BackOff) -> None:
    assert not back_off.resting
    back_off.failed(AWAY)
    assert back_off.resting
    back_off.answered()
    assert not back_off.resting


def test_the_pauses_become_longer_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspider_zk.queues.back_off.time.monotonic", lambda: 100.0)
    back_off = BackOff(LOGGER, "work waits", pause=0.3)
    pauses = []
    for _ in range(5):
        back_off.failed(AWAY)
        pauses.append(round(back_off._left(), 3))
    assert pauses == [0.3, 0.6, 1.2, LONGEST_PAUSE, LONGEST_PAUSE]


def test_a_piece_of_work_tells_whether_the_queue_answered(
    back_off: BackOff, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(Unavailable), back_off.watching():
        raise AWAY
    assert levels(caplog) == [logging.WARNING]
    # when it is too early to ask
    with back_off.watching():
        pass
    assert levels(caplog) == [logging.WARNING]


def test_work_during_which_something_failed_is_no_sign_of_life(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    back_off = BackOff(LOGGER, "work waits", pause=1e-9)
    with back_off.watching():
        back_off.failed(AWAY)
    assert levels(caplog) == [logging.WARNING]
    with back_off.watching():
        pass
    assert levels(caplog) == [logging.WARNING, logging.INFO]


def test_what_answers_is_not_waited_for(back_off: BackOff) -> None:
    back_off.rest(LONG)


def test_waiting_ends_with_the_grace(back_off: BackOff) -> None:
    back_off.failed(AWAY)
    back_off.close()
    assert back_off._over.wait(LONG)
    assert back_off.over
    with pytest.raises(Unavailable, match="ends"):
        back_off.wait(LONG)
