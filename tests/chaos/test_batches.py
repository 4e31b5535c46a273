"""Asking for batches ends, also when there is nobody left to ask."""

import pytest

from pyspider_zk.config import Settings
from tests.chaos.batches import NobodyAnswersError, Starter

BATCH = {"chaos-0": ["started0"]}


@pytest.fixture
def starter() -> Starter:
    """Give one that knows of no scheduler, and has no ZooKeeper to hear of any."""
    return Starter(Settings(hosts="127.0.0.1:1"), BATCH)


def test_an_ask_that_nobody_answers_is_given_up(starter: Starter) -> None:
    with pytest.raises(NobodyAnswersError, match="nobody answered get_batch"):
        starter._call("get_batch", "chaos-0", limit=0.1)


def test_a_batch_that_nobody_knows_of_is_wanted_all_the_same(starter: Starter) -> None:
    starter._asked, starter._deserted = BATCH, True
    found = starter.look()["chaos-0"]

    assert found["projects"] == ["started0"]
    assert "nobody answered" in found["state"]
