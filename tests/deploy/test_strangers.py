"""The judgement of what strangers try: what opens, what cannot be judged, what nobody knows of."""

from dataclasses import replace

from tests.deploy.strangers import Tried, faults

SHUT = Tried("redis", "plain", opened=False, told="TimeoutError")
OPENED = Tried("redis", "with its key", opened=True, told="")


def test_a_door_that_stays_shut_but_for_its_key_is_no_fault() -> None:
    assert list(faults([SHUT], [OPENED], {"redis": {6379}})) == []


def test_a_door_that_opens_is_a_fault() -> None:
    (fault,) = faults([SHUT, replace(SHUT, opened=True)], [OPENED], {})
    assert fault == "redis opens to a stranger: plain"


def test_an_attempt_that_fails_with_the_key_too_proves_nothing() -> None:
    (fault,) = faults([SHUT], [replace(OPENED, opened=False, told="no such host")], {})
    assert "does not open to its key" in fault
    (fault,) = faults([SHUT], [], {})
    assert fault == "redis was not tried by both"


def test_a_port_that_nobody_knows_of_is_a_fault() -> None:
    (fault,) = faults([SHUT], [OPENED], {"zookeeper2": {2281, 8080}})
    assert fault == "zookeeper2 listens on port 8080, which nobody knows of"
