"""The seals of slots: who does not hold the newest cannot write, on every database."""

from contextlib import suppress
from typing import Any

import pytest

from pyspider_zk.errors import SealBroken
from pyspider_zk.tasks.seals import TABLE, Seals, SealsUnreadable
from tests.tasks.conftest import Opened, TaskBackend, each_of

MANY = 16_384
of_files = each_of(["sqlite", "sqlalchemy+sqlite"])
ROW = {"url": "u", "status": 1}


def seals(*epochs: int, cluster: str = "/c") -> Seals:
    """Return the seals of the first slots."""
    return Seals(cluster, dict(enumerate(epochs)))


def write(opened: Opened, taskid: str, of: Seals) -> None:
    opened.bulk.write_many([opened.new("p1", taskid, ROW)], lambda: None, of)


def taskids(opened: Opened) -> set[str]:
    opened.taskdb._list_project()
    return {row["taskid"] for row in opened.taskdb.load_tasks(1, "p1", ["taskid"])}


def damage(backend: TaskBackend, statement: str, *values: object) -> None:
    backend.ours.execute(statement.format(backend.seals, *values))


# --- writing --------------------------------------------------------------------------------------


def test_who_holds_the_newest_seal_writes_and_nobody_else(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    assert ours.bulk.seal(seals(1, 1)) == {}
    write(ours, "mine", seals(1, 1))
    assert theirs.bulk.seal(seals(2)) == {}

    with pytest.raises(SealBroken) as broken:
        write(ours, "late", seals(1, 1))
    assert broken.value.slots == {0: 2}
    with pytest.raises(SealBroken):
        write(ours, "early", seals(3))
    write(theirs, "theirs", seals(2))
    write(ours, "of another slot", Seals("/c", {1: 1}))
    assert taskids(ours) == {"mine", "theirs", "of another slot"}


def test_a_late_writer_makes_no_table_where_that_is_part_of_a_transaction(
    transactional_tables: TaskBackend,
) -> None:
    ours = transactional_tables.ours
    ours.bulk.seal(seals(2))
    with pytest.raises(SealBroken):
        write(ours, "late", seals(1))
    ours.taskdb._list_project()
    assert not ours.taskdb.projects


def test_a_slot_that_was_never_sealed_is_not_written(backend: TaskBackend) -> None:
    ours = backend.ours
    with pytest.raises(SealsUnreadable, match=TABLE):
        write(ours, "t", seals(1))
    ours.bulk.seal(seals(1))
    with pytest.raises(SealBroken) as broken:
        write(ours, "t", seals(1, 7))
    assert broken.value.slots == {1: None}
    assert "not sealed" in str(broken.value)
    assert taskids(ours) == set()


def test_a_transaction_in_flight_cannot_be_passed(locking: TaskBackend) -> None:
    ours, theirs = locking.ours, locking.theirs
    ours.bulk.seal(seals(1))
    if hasattr(ours.taskdb, "patience"):
        theirs.taskdb.patience = 0.05

    def they_wait() -> None:
        with pytest.raises(Exception, match=r"(?i)lock"):
            theirs.bulk.seal(seals(2))

    ours.bulk.write_many([ours.new("p1", "t", ROW)], they_wait, seals(1))
    assert theirs.bulk.seal(seals(2)) == {}
    assert taskids(theirs) == {"t"}


def test_a_seal_in_flight_cannot_be_passed(
    locking: TaskBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = locking.ours, locking.theirs
    ours.bulk.seal(seals(1))
    if hasattr(ours.taskdb, "patience"):
        ours.taskdb.patience = 0.05
    others, waited = Seals.others, list[bool]()

    def while_they_seal(self: Seals, found: Any) -> Any:
        if self == seals(2):
            with pytest.raises(Exception, match=r"(?i)lock"):
                write(ours, "late", seals(1))
            waited.append(True)
        return others(self, found)

    monkeypatch.setattr(Seals, "others", while_they_seal)
    assert theirs.bulk.seal(seals(2)) == {}
    assert waited == [True]
    assert taskids(ours) == set()


def test_writers_of_one_owner_do_not_wait_for_each_other(on_server: TaskBackend) -> None:
    ours, theirs = on_server.ours, on_server.theirs
    ours.bulk.seal(seals(1))
    ours.taskdb.insert("p1", "first", ROW)
    theirs.taskdb._list_project()
    both = [ours.new("p1", "ours", ROW)]
    ours.bulk.write_many(both, lambda: write(theirs, "theirs", seals(1)), seals(1))
    assert taskids(ours) == {"first", "ours", "theirs"}


def test_a_late_drop_leaves_everything(backend: TaskBackend) -> None:
    ours = backend.ours
    ours.bulk.seal(seals(1))
    write(ours, "t", seals(1))
    backend.theirs.bulk.seal(seals(2))
    with pytest.raises(SealBroken):
        ours.bulk.drop(["p1"], lambda: None, seals(1))
    assert taskids(ours) == {"t"}
    ours.bulk.drop(["p1", "nobody"], lambda: None, seals(2))
    assert "p1" not in ours.taskdb.projects


# --- sealing --------------------------------------------------------------------------------------


def test_a_seal_never_goes_back(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    assert ours.bulk.seal(seals(1, 5, 1)) == {}
    assert theirs.bulk.seal(seals(2, 4, 2)) == {1: 5}
    assert theirs.bulk.seal(seals(2, 5, 2)) == {}
    write(ours, "t", seals(2, 5, 2))


def test_clusters_do_not_know_each_other(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    ours.bulk.seal(seals(9, cluster="/a"))
    assert theirs.bulk.seal(seals(1, cluster="/a/é'%s")) == {}
    write(theirs, "t", seals(1, cluster="/a/é'%s"))
    write(ours, "u", seals(9, cluster="/a"))


def test_all_slots_of_the_largest_cluster_are_sealed_at_once(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    assert ours.bulk.seal(seals(*[2**53] * MANY)) == {}
    write(ours, "t", seals(*[2**53] * MANY))
    assert theirs.bulk.seal(seals(*[2**53 + 1] * MANY)) == {}
    with pytest.raises(SealBroken) as broken:
        write(ours, "t", seals(*[2**53] * MANY))
    assert len(broken.value.slots) == MANY


def test_the_table_of_seals_is_no_project(backend: TaskBackend) -> None:
    ours = backend.ours
    ours.bulk.seal(seals(1))
    ours.taskdb._list_project()
    assert not ours.taskdb.projects
    assert not ours.taskdb.get_task(TABLE, "t")
    assert list(ours.taskdb.load_tasks(1)) == []
    ours.taskdb.drop(TABLE)
    write(ours, "t", seals(1))


# --- what somebody else wrote there ---------------------------------------------------------------


@pytest.mark.parametrize("epoch", [2**62, 7])
def test_an_epoch_that_somebody_raised_is_refused_and_no_other(
    backend: TaskBackend, epoch: int
) -> None:
    ours = backend.ours
    ours.bulk.seal(seals(1, 1))
    damage(backend, "UPDATE {} SET epoch = {} WHERE slot = 0", epoch)
    assert ours.bulk.seal(seals(2, 2)) == {0: epoch}
    write(ours, "t", Seals("/c", {1: 2}))


def test_an_epoch_that_somebody_lowered_is_raised_by_the_next_seal(backend: TaskBackend) -> None:
    ours = backend.ours
    ours.bulk.seal(seals(5))
    damage(backend, "UPDATE {} SET epoch = -1")
    with pytest.raises(SealBroken):
        write(ours, "t", seals(5))
    assert ours.bulk.seal(seals(5)) == {}
    write(ours, "t", seals(5))


@pytest.mark.parametrize("text", ["'x'", "x'00ff'", "1e300"])
def test_what_is_no_number_in_a_file_is_refused(of_files: TaskBackend, text: str) -> None:
    ours = of_files.ours
    ours.bulk.seal(seals(1, 1))
    damage(of_files, "UPDATE {} SET epoch = {} WHERE slot = 0", text)
    assert list(ours.bulk.seal(seals(2, 2))) == [0]
    with pytest.raises(SealBroken):
        write(ours, "t", seals(2, 2))


@pytest.mark.parametrize(
    "statement", ["DROP TABLE {}", "DROP TABLE {0}; CREATE TABLE {0} (cluster INTEGER)"]
)
def test_a_table_that_somebody_changed_stops_all_writes_until_it_is_dropped(
    backend: TaskBackend, statement: str
) -> None:
    ours = backend.ours
    ours.bulk.seal(seals(1))
    for each in statement.split(";"):
        damage(backend, each)
    with pytest.raises(SealsUnreadable, match=TABLE):
        write(ours, "t", seals(1))
    assert taskids(ours) == set()
    with suppress(SealsUnreadable):
        ours.bulk.seal(seals(1))
        assert ";" not in statement
    damage(backend, "DROP TABLE IF EXISTS {}")
    ours.bulk.seal(seals(1))
    write(ours, "t", seals(1))
