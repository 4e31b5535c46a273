"""The catalogue of bad input, and a cluster that it is put into."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.fuzz.catalogue import PER_SPOT, everything, groups, order, planned, sample
from tests.fuzz.catalogue.keys import shared_key
from tests.fuzz.poisoning import main, run
from tests.support.database_servers import DatabaseServer, PostgresServer
from tests.support.needed import skip_without_needed
from tests.support.seed import SEED


def test_there_are_many_kinds_on_every_surface():
    kinds = Counter(entry.surface for entry in everything())

    assert sum(kinds.values()) >= 1000
    assert min(kinds.values()) >= 10, kinds


def test_every_entry_says_where_it_must_be_shown():
    assert [str(entry) for entry in everything() if not entry.shown] == []


def test_a_sample_covers_all_that_can_be_put_in_at_once():
    entries = everything()

    chosen = sample(entries, order(1))

    assert {str(one) for one in entries if not one.spot} <= {str(one) for one in chosen}
    assert max(Counter(one.spot for one in chosen if one.spot).values()) == PER_SPOT


def test_a_seed_says_it_all():
    first, second = (sample(everything(), order(7)) for _ in range(2))

    assert list(map(str, first)) == list(map(str, second))


def test_no_group_holds_two_that_cover_each_other():
    entries = everything()

    made = groups(entries, 50)

    assert sum(map(len, made)) == len(entries)
    for group in made:
        assert len(group) <= 50
        spots = [entry.spot for entry in group if entry.spot]
        assert len(spots) == len(set(spots))


def test_a_sample_of_entries_that_all_cover_each_other():
    covering = [entry for entry in everything() if entry.spot]

    assert len(sample(covering, order(1))) > 0


@pytest.mark.parametrize("short", [[], ["--short"]])
def test_a_word_that_no_name_holds_is_told(capsys: pytest.CaptureFixture[str], short: list[str]):
    assert main(["--only", "abacus", *short]) == 2
    assert "no entry's name holds 'abacus'" in capsys.readouterr().out


KEY = "scheduler2fetcher"
COMMANDS = 12  # more than a key takes to be taken away and put back


@pytest.mark.redis
@pytest.mark.parametrize("kind", ["a text", "a hash", "a sorted set"])
@pytest.mark.parametrize("there_before", [True, False])
@pytest.mark.parametrize("place", range(COMMANDS))
def test_a_message_that_comes_between_two_commands_is_kept(
    redis_url: str, place: int, there_before: bool, kind: str
) -> None:
    with redis.Redis.from_url(redis_url) as crawl:
        sent = [b"before"] if there_before else []
        for message in sent:
            crawl.rpush(KEY, message)

        def send() -> None:
            try:
                crawl.rpush(KEY, b"meanwhile")
                sent.append(b"meanwhile")
            except redis.ResponseError:  # the wrong thing stands there: the crawl keeps it
                pass

        with disturbed(redis_url, place, send) as client:
            poison, grip = shared_key(KEY, kind, "a list"), SimpleNamespace(redis=client)
            poison.put(grip)  # type: ignore[arg-type]
            assert poison.mend is not None
            poison.mend(grip)  # type: ignore[arg-type]
        assert sorted(crawl.lrange(KEY, 0, -1)) == sorted(sent)


def disturbed(url: str, place: int, send: Any) -> redis.Redis:
    """Return a client; something is sent to the same Redis before its command of that place."""
    left = [place]

    class DisturbedConnection(redis.Connection):
        def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
            left[0] -= 1
            if left[0] == -1:
                send()
            super().send_packed_command(*args, **kwargs)

    pool = redis.ConnectionPool.from_url(url, connection_class=DisturbedConnection)
    return redis.Redis.from_pool(pool)


GROUP = 120


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.timeout(2700)
@pytest.mark.parametrize(
    "server",
    [
        pytest.param(None, marks=pytest.mark.poison, id="sqlite"),
        pytest.param(
            PostgresServer, marks=(pytest.mark.soak, pytest.mark.postgresql), id="PostgreSQL"
        ),
    ],
)
def test_a_cluster_outlives_bad_input_on_every_surface(
    tmp_path: Path, server: type[DatabaseServer] | None
) -> None:
    """The order comes from ``SEED``; ``python -m tests.fuzz catalogue --bisect`` names culprits."""
    grouped, visits = planned(everything(), SEED, GROUP, short=True)
    with skip_without_needed():
        verdict = run(tmp_path, grouped, visits, server)

    assert verdict.good, "\n".join([f"seed {SEED}", *verdict.lines()])
    assert verdict.put == sum(map(len, [*grouped, visits]))
