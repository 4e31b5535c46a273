"""Locks: one after the other, in order, however replies and sessions get lost."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, ClusterError, SessionLost, TimedOut, Unavailable
from pyspider_zk.groups.locks import (
    Lock,
    LockEntry,
    LockKind,
    admission_of,
    entry_before,
    line_of,
    prefix_of,
)
from pyspider_zk.zookeeper import waiting
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.waiting import Errands
from tests.support.crew import Cable, expire
from tests.support.waiting import eventually
from tests.support.zk_faults import Lossy

X, S = LockKind.EXCLUSIVE, LockKind.SHARED


def entries(*kinds: LockKind, first: int = 0) -> list[LockEntry]:
    return [
        LockEntry(kind, f"guid{place}", _signed(first + place)) for place, kind in enumerate(kinds)
    ]


def _signed(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def before(line: list[LockEntry], place: int) -> LockEntry | None:
    return entry_before(line[::-1], line[place])


def test_the_first_in_line_holds_the_lock():
    assert before(entries(X), 0) is None
    assert before(entries(S, X), 0) is None


def test_a_writer_waits_for_the_one_just_before_it():
    line = entries(X, S, S, X)

    assert before(line, 3) == line[2]


def test_a_reader_waits_for_the_last_writer_before_it_and_for_no_reader():
    line = entries(X, X, S, S)

    assert [before(line, 2), before(line, 3)] == [line[1], line[1]]
    assert before(entries(S, S, S), 2) is None


def test_an_entry_is_found_by_its_guid():
    line = entries(X, S)

    assert admission_of(line, "guid1") == line[1]
    assert admission_of(line, "guid2") is None


def test_names_are_read():
    line = [*entries(X, S), LockEntry(X, "guid", -(2**31))]

    assert [LockEntry.parse(str(entry)) for entry in line] == line


@pytest.mark.parametrize(
    "name", ["", "note", "exclusive-a", "other-a-0000000001", "shared-a-1", "shared-a-+000000001"]
)
def test_what_is_no_entry_is_told_apart(name: str):
    with pytest.raises(BadMessage, match="no place in line"):
        LockEntry.parse(name)


def test_a_line_of_nobody_is_empty():
    assert line_of([]) == []


@given(
    st.lists(st.sampled_from([X, S]), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.randoms(),
)
def test_the_order_holds_where_numbers_run_over(kinds, first, random):
    line = entries(*kinds, first=first)
    shuffled = list(line)
    random.shuffle(shuffled)

    assert line_of(shuffled) == line


@given(st.lists(st.sampled_from([X, S]), min_size=1, max_size=8))
def test_holders_are_readers_together_or_one_writer_alone(kinds):
    line = entries(*kinds)
    holding = [entry for place, entry in enumerate(line) if before(line, place) is None]

    assert holding
    assert len(holding) == 1 or {entry.kind for entry in holding} == {S}


MORTAL = 4.0  # seconds of a session that is to end


class Party:
    """A connection with locks; what it got is noted in a list that all share."""

    def __init__(self, settings: Settings, path: str, log: list[str]) -> None:
        self.connection = Lossy(settings)
        self.connection.start()
        self.errands = Errands()
        self.errands.start()
        self._path = path
        self._log = log
        self._threads: list[threading.Thread] = []

    def lock(self, kind: LockKind = LockKind.EXCLUSIVE, **options: object) -> Lock:
        return Lock(self.connection, self.errands, self._path, kind, **options)

    def queue(self, name: str, kind: LockKind = LockKind.EXCLUSIVE) -> threading.Event:
        """Get in line in a thread and wait until we stand; return what makes it release."""
        release = threading.Event()

        def run() -> None:
            with self.lock(kind, timeout=60):
                self._log.append(name)
                release.wait(60)

        standing = len(self.line())
        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()
        eventually(lambda: len(self.line()) > standing, f"{name} in line")
        return release

    def line(self) -> list[str]:
        return self.connection.children(self._path)

    def is_done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        for thread in self._threads:
            thread.join(60)
        assert self.is_done()
        self.errands.stop()
        self.connection.stop()


class Parties:
    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self.got: list[str] = []

    def make(self, hosts: str = "", session: float = 30.0) -> Party:
        settings = Settings(hosts=hosts or self._settings.hosts, session=session)
        party = Party(settings, f"{self._settings.root}/locks/one", self.got)
        self._stack.callback(party.stop)
        return party


def noted(monkeypatch: pytest.MonkeyPatch, method: str) -> list[str]:
    """Return a list that gets the path of every read by another thread, once it is done."""
    paths: list[str] = []
    test = threading.get_ident()
    read = getattr(Connection, method)

    def note(connection: Connection, path: str, *args: object) -> object:
        result = read(connection, path, *args)
        if threading.get_ident() != test:
            paths.append(path)
        return result

    monkeypatch.setattr(Connection, method, note)
    return paths


@pytest.fixture
def parties(settings: Settings, cable: Cable) -> Iterator[Parties]:  # noqa: ARG001 - outlives them
    with ExitStack() as stack:
        yield Parties(settings, stack)


@pytest.mark.zk
def test_the_lock_goes_round_in_the_order_of_coming(parties: Parties):
    crew = [parties.make() for _ in range(3)]
    releases = [crew[place % 3].queue(str(place)) for place in range(6)]

    for place, release in enumerate(releases):
        eventually(lambda place=place: len(parties.got) == place + 1)
        release.set()

    assert parties.got == list("012345")


@pytest.mark.zk
def test_a_release_wakes_only_the_next(parties: Parties, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "LOOK", 600.0)  # none looks but who is woken
    party = parties.make()
    looks = noted(monkeypatch, "children")
    sleeps = noted(monkeypatch, "find")
    releases = [party.queue(str(place)) for place in range(5)]
    eventually(lambda: parties.got == ["0"] and len(sleeps) == 4, "one holds it, four sleep")
    looks.clear()

    for release in releases:
        release.set()
    eventually(party.is_done)

    # Each looks once to leave, and each but the first once when it was woken.
    assert len(looks) == 5 + 4


@pytest.mark.zk
def test_readers_share_and_a_writer_is_alone_and_not_overtaken(parties: Parties):
    party, other = parties.make(), parties.make()
    readers = [party.queue("r1", LockKind.SHARED), other.queue("r2", LockKind.SHARED)]
    eventually(lambda: sorted(parties.got) == ["r1", "r2"])
    writer = party.queue("w")
    late = other.queue("late", LockKind.SHARED)

    readers[0].set()
    eventually(lambda: len(party.line()) == 3)
    assert len(parties.got) == 2
    readers[1].set()
    eventually(lambda: parties.got[2:] == ["w"])
    writer.set()
    eventually(lambda: parties.got[2:] == ["w", "late"])
    late.set()


@pytest.mark.zk
def test_who_comes_out_of_time_leaves_the_line(parties: Parties):
    holder, late = parties.make(), parties.make()
    with holder.lock(), pytest.raises(TimedOut, match=r"not free within 0\.05 s"):
        late.lock(timeout=0.05).acquire()
    assert holder.line() == []


@pytest.mark.zk
def test_who_leaves_the_line_does_not_let_the_next_in(parties: Parties):
    party = parties.make()

    def give_up() -> None:
        with pytest.raises(TimedOut):
            party.lock(timeout=15).acquire()

    with party.lock():
        thread = threading.Thread(target=give_up)
        thread.start()
        eventually(lambda: len(party.line()) == 2)
        last = party.queue("last")
        thread.join()
        eventually(lambda: len(party.line()) == 2)
        assert parties.got == []
    eventually(lambda: parties.got == ["last"])
    last.set()


@pytest.mark.zk
def test_one_that_leaves_just_before_it_is_watched_does_not_let_the_next_in(parties: Parties):
    party, other = parties.make(), parties.make()
    with party.lock():
        prefix = f"{party._path}/{prefix_of(LockKind.EXCLUSIVE, 'other')}"
        standing = other.connection.create(prefix, ephemeral=True, sequence=True)
        party.connection.before_find = lambda: other.connection.delete(standing)

        with pytest.raises(TimedOut):
            party.lock(timeout=0).acquire()
        assert len(party.line()) == 1


@pytest.mark.zk
def test_an_exception_leaves_the_line(parties: Parties, monkeypatch: pytest.MonkeyPatch):
    party = parties.make()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with party.lock():
        monkeypatch.setattr(Lock, "_mine", interrupt)
        with pytest.raises(KeyboardInterrupt):
            party.lock().acquire()
        monkeypatch.undo()
        assert len(party.line()) == 1

    with pytest.raises(ZeroDivisionError), party.lock():
        _ = 1 / 0
    assert party.line() == []


@pytest.mark.zk
def test_a_place_whose_reply_was_lost_is_found_again(parties: Parties):
    party = parties.make()
    party.connection.create(party._path)
    party.connection.lose = 1

    with party.lock(timeout=30) as lock:
        assert len(party.line()) == 1
        lock.check()

    assert party.line() == []


@pytest.mark.zk
def test_the_first_lock_of_all_may_lose_its_reply_too(parties: Parties):
    party = parties.make()
    party.connection.lose = 2

    with party.lock(timeout=30):
        assert len(party.line()) == 1


@pytest.mark.zk
def test_a_place_whose_reply_was_lost_is_left_when_time_is_up(parties: Parties):
    party = parties.make()
    party.connection.create(party._path)
    party.connection.lose = 1

    with pytest.raises(TimedOut):
        party.lock(timeout=0).acquire()

    assert party.line() == []


@pytest.mark.zk
def test_a_server_that_lags_makes_no_second_place_in_line(parties: Parties):
    party, other = parties.make(), parties.make()
    party.connection.create(party._path)
    party.connection.lose, party.connection.lags = 1, True

    with party.lock(timeout=30):
        assert len(other.line()) == 1

    assert other.line() == []


@pytest.mark.zk
def test_a_place_that_a_server_has_not_heard_of_is_left(parties: Parties):
    party, other = parties.make(), parties.make()
    party.connection.create(party._path)
    party.connection.lose, party.connection.lags = 1, True

    with pytest.raises(TimedOut):
        party.lock(timeout=0).acquire()

    assert other.line() == []


@pytest.mark.zk
def test_an_object_is_not_reentrant_but_serves_again(parties: Parties):
    party = parties.make()
    lock = party.lock(timeout=0.05)
    with lock:
        with pytest.raises(ClusterError, match="not reentrant"):
            lock.acquire()
        with pytest.raises(TimedOut):
            party.lock(timeout=0.05).acquire()
        assert lock.held
    with lock:
        lock.check()
    assert not lock.held
    with pytest.raises(ClusterError, match="not held"):
        lock.release()


@pytest.mark.zk
def test_the_holder_is_told_when_its_session_ends(parties: Parties):
    party, other = parties.make(), parties.make()
    told = threading.Event()
    lock = party.lock(on_lost=told.set)
    lock.acquire()

    expire(party.connection)

    assert lock.lost.wait(60)
    assert told.wait(60)
    assert not lock.held
    with pytest.raises(SessionLost):
        lock.check()
    with other.lock(timeout=30):
        pass
    lock.release()


@pytest.mark.zk
def test_leaving_the_block_of_a_lost_lock_raises(parties: Parties):
    party = parties.make()

    def lose_it() -> None:
        with party.lock() as lock:
            expire(party.connection)
            lock.lost.wait(60)

    with pytest.raises(SessionLost, match="lost while it was held"):
        lose_it()


@pytest.mark.zk
def test_a_holder_behind_a_silent_link_is_told_before_another_gets_the_lock(
    parties: Parties, cable: Cable
):
    far, near = parties.make(cable.address, MORTAL), parties.make()
    lock = far.lock()
    lock.acquire()
    with pytest.raises(TimedOut):
        near.lock(timeout=0).acquire()

    cable.cut()
    with near.lock(timeout=60):
        assert lock.lost.is_set()
        with pytest.raises(SessionLost):
            lock.check()
    cable.mend()
    lock.release()


@pytest.mark.zk
def test_asking_makes_sure_that_the_lock_is_held(parties: Parties):
    party, other = parties.make(), parties.make()
    lock = party.lock()
    lock.acquire()
    (entry,) = other.line()

    other.connection.delete(f"{party._path}/{entry}")

    with pytest.raises(SessionLost, match="its znode is gone"):
        lock.check()
    assert lock.lost.is_set()
    lock.release()


@pytest.mark.zk
def test_asking_without_an_answer_says_so(parties: Parties, cable: Cable):
    party = parties.make(cable.address)
    lock = party.lock()
    lock.acquire()

    cable.cut()
    cable.drop()
    eventually(lambda: not party.connection.connected)

    with pytest.raises(Unavailable):
        lock.check()
    assert lock.held
    cable.mend()
    lock.release()


@pytest.mark.zk
def test_a_lock_released_while_zookeeper_is_away_is_free_when_it_is_back(
    parties: Parties, cable: Cable
):
    far, near = parties.make(cable.address), parties.make()
    lock = far.lock()
    lock.acquire()
    session = far.connection.session
    cable.cut()
    cable.drop()
    eventually(lambda: not far.connection.connected)

    lock.release()
    assert len(near.line()) == 1
    cable.mend()

    with near.lock(timeout=60):
        assert far.connection.session == session


@pytest.mark.zk
def test_a_waiter_keeps_its_place_through_a_short_suspension(parties: Parties, cable: Cable):
    far, near = parties.make(cable.address), parties.make()
    first = near.queue("first")
    waiting = far.queue("far")
    last = near.queue("last")

    cable.drop()
    first.set()

    eventually(lambda: parties.got == ["first", "far"])
    waiting.set()
    last.set()


@pytest.mark.zk
@pytest.mark.parametrize("how", ["the session expires", "the link is silent"])
def test_a_waiter_whose_session_ends_is_told(parties: Parties, cable: Cable, how: str):
    party, holder = parties.make(cable.address, MORTAL), parties.make()
    failures: list[Exception] = []

    def run() -> None:
        try:
            party.lock().acquire()
        except SessionLost as error:
            failures.append(error)

    with holder.lock():
        thread = threading.Thread(target=run)
        thread.start()
        eventually(lambda: len(holder.line()) == 2)
        if how == "the link is silent":
            cable.cut()
        else:
            expire(party.connection)
        thread.join(60)
        assert failures
    cable.mend()


@pytest.mark.zk
def test_a_place_that_came_to_stand_in_the_next_session_is_left(parties: Parties):
    party = parties.make()
    party.connection.create(party._path)
    session = party.connection.session

    def begin_another() -> None:
        expire(party.connection)
        eventually(lambda: party.connection.session not in (None, session))

    party.connection.before = begin_another
    with pytest.raises(SessionLost):
        party.lock(timeout=30).acquire()

    assert party.line() == []


@pytest.mark.zk
def test_many_contend_and_never_two_hold_it(parties: Parties):
    crew = [parties.make() for _ in range(3)]
    holding: list[int] = []
    most: list[int] = []

    def run(party: Party) -> None:
        for _ in range(5):
            with party.lock(timeout=60):
                holding.append(1)
                party.line()  # long enough for another to come, if it could
                most.append(len(holding))
                holding.pop()

    threads = [threading.Thread(target=run, args=(party,)) for party in crew * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(most) == 30
    assert max(most) == 1
