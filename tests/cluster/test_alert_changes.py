"""Which alerts are new and which are gone, from one look to the next."""

from pyspider_zk.cluster.alerts import Alert, AlertKind, Observation, Severity, alerts, changes
from pyspider_zk.cluster.records import Assignment, Cluster, Component, ComponentKind, Meta

DEAD = Alert(AlertKind.DEAD_LETTERS, Severity.WARNING, "1 dead letter")
MORE_DEAD = Alert(AlertKind.DEAD_LETTERS, Severity.WARNING, "2 dead letters")
LATE = Alert(AlertKind.SUSPECT, Severity.WARNING, "member 1 is suspect", "1-a")
GONE = Alert(AlertKind.SUSPECT, Severity.SERIOUS, "member 1 has not renewed", "1-a")
OTHER = Alert(AlertKind.SUSPECT, Severity.WARNING, "member 2 is suspect", "2-b")


def test_what_is_new_is_raised_and_what_is_gone_is_cleared() -> None:
    first = changes({}, [DEAD, LATE], is_whole=True)
    assert (first.raised, first.cleared) == ((DEAD, LATE), ())
    second = changes(first.current, [LATE, OTHER], is_whole=True)
    assert (second.raised, second.cleared) == ((OTHER,), (DEAD,))
    assert tuple(second.current.values()) == (LATE, OTHER)


def test_another_number_in_the_text_is_no_change() -> None:
    first = changes({}, [DEAD], is_whole=True)
    second = changes(first.current, [MORE_DEAD], is_whole=True)
    assert not second
    assert tuple(second.current.values()) == (MORE_DEAD,)


def test_a_warning_that_becomes_serious_is_told() -> None:
    first = changes({}, [LATE], is_whole=True)
    second = changes(first.current, [GONE], is_whole=True)
    assert (second.raised, second.cleared) == ((GONE,), (LATE,))


def test_nothing_is_cleared_while_something_does_not_answer() -> None:
    first = changes({}, [DEAD, LATE], is_whole=True)
    unknown = changes(first.current, [OTHER], is_whole=False)
    assert (unknown.raised, unknown.cleared) == ((OTHER,), ())
    assert set(unknown.current.values()) == {DEAD, LATE, OTHER}
    known = changes(unknown.current, [OTHER], is_whole=True)
    assert set(known.cleared) == {DEAD, LATE}


def test_components_of_each_kind_are_told_apart() -> None:
    record = Component("host", 1, "0", 0.0)
    with_fetcher = {ComponentKind.FETCHER: {"a": record}}
    cluster = Cluster(Meta(1), Assignment.vacant(1))
    before = alerts(Observation(cluster))
    after = alerts(Observation(Cluster(Meta(1), Assignment.vacant(1), components=with_fetcher)))
    first = changes({}, before, is_whole=True)
    (cleared,) = changes(first.current, after, is_whole=True).cleared
    assert (cleared.kind, cleared.about) == (AlertKind.NO_COMPONENT, "fetcher")
