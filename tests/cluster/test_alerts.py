"""What an operator is told to look at, and what of that changed."""

from dataclasses import replace

from pyspider_zk.cluster.alerts import Alert, AlertKind, Observation, Severity, alerts, changes
from pyspider_zk.cluster.records import (
    Assignment,
    Cluster,
    Component,
    ComponentKind,
    Load,
    Member,
    Meta,
    Slot,
)
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.queues.api import SlotBacklog
from pyspider_zk.queues.names import QueueKind

A, B = MemberId(0, "a"), MemberId(1, "b")
RECORD = Member("h:1", "h", 1, "v", 0.0)
COMPONENT = Component("h", 1, "v", 0.0)
WELL = Cluster(
    Meta(3),
    Assignment(1, (Slot(A, 1), Slot(B, 1), Slot(B, 1))),
    leader=A,
    members={A: RECORD, B: RECORD},
    components={kind: {"x": COMPONENT} for kind in ComponentKind},
)


def only(sight: Observation) -> Alert:
    (alert,) = alerts(sight)
    return alert


def test_a_cluster_that_is_well_has_no_alerts():
    sight = Observation(
        WELL, {A: 0.1, B: 1.0}, 4.0, {(QueueKind.STATUS, 2): SlotBacklog(9, 1.0)}, 0
    )
    assert alerts(sight) == []


def test_projects_that_rest_because_their_tasks_failed():
    loads = {A: Load(paused=7, paused_names=("q", "p")), B: Load(paused=1, paused_names=("r",))}
    alert = only(Observation(replace(WELL, loads=loads)))
    assert (alert.kind, alert.severity) == (AlertKind.PAUSED, Severity.WARNING)
    assert alert.text == "8 projects paused, because the latest tasks failed: p, q, r"


def test_projects_whose_scripts_do_not_run():
    loads = {A: Load(broken=1, broken_names=("q",)), B: Load(broken=1, broken_names=("p",))}
    alert = only(Observation(replace(WELL, loads=loads)))
    assert (alert.kind, alert.severity) == (AlertKind.BROKEN, Severity.WARNING)
    assert alert.text == "2 projects cannot start, for the scripts do not run: p, q"


def test_many_of_the_latest_tasks_failed():
    loads = {A: Load(ended=90, failed=19, failing_names=("p",)), B: Load(ended=10)}
    assert alerts(Observation(replace(WELL, loads=loads))) == [], "a few always do"
    loads[B] = Load(ended=10, failed=1, failing_names=("q",))
    alert = only(Observation(replace(WELL, loads=loads)))
    assert alert.kind is AlertKind.FAILING
    assert alert.text == "20 of 100 tasks failed in five minutes, most of p, q"
    loads[B] = Load(ended=100, failed=1)
    assert alerts(Observation(replace(WELL, loads=loads))) == [], "nor is a small share one"


def test_what_is_unknown_is_no_alert():
    assert alerts(Observation()) == []


def test_nobody_leads():
    alert = only(Observation(replace(WELL, leader=None)))
    assert (alert.kind, alert.severity) == (AlertKind.NO_LEADER, Severity.SERIOUS)


def test_no_scheduler_runs_is_one_alert_not_three():
    nobody = replace(WELL, leader=None, members={})
    assert only(Observation(nobody)).kind is AlertKind.NO_MEMBER


def test_slots_of_an_owner_that_is_gone():
    alert = only(Observation(replace(WELL, members={A: RECORD})))
    assert alert.kind is AlertKind.UNSERVED
    assert alert.text.startswith("2 slots without a running owner")


def test_messages_for_slots_that_nobody_reads_are_counted():
    backlog = {
        (QueueKind.NEWTASK, 0): SlotBacklog(5, 1.0),
        (QueueKind.NEWTASK, 1): SlotBacklog(2, 1.0),
        (QueueKind.STATUS, 1): SlotBacklog(1, 1.0),
        (QueueKind.STATUS, 9): SlotBacklog(4, 1.0),  # there is no such slot
    }
    found = alerts(Observation(replace(WELL, members={A: RECORD}), backlog=backlog))
    unread = next(alert for alert in found if alert.kind is AlertKind.UNREAD)
    assert unread.text == "7 messages in slot queues that nobody reads: slots 1, 9"


def test_a_member_is_suspect_after_half_a_lease_and_serious_after_a_whole_one():
    assert alerts(Observation(WELL, {B: 2.0}, lease=4.0)) == []
    assert only(Observation(WELL, {B: 2.1}, lease=4.0)).severity is Severity.WARNING
    late = only(Observation(WELL, {B: 4.1}, lease=4.0))
    assert (late.kind, late.severity) == (AlertKind.SUSPECT, Severity.SERIOUS)


def test_a_kind_of_component_that_is_missing():
    without = {**WELL.components, ComponentKind.FETCHER: {}}
    text = "no fetcher is registered: nothing is fetched, unless by one that does not register"
    assert only(Observation(replace(WELL, components=without))).text == text


def test_the_worst_comes_first():
    found = alerts(Observation(replace(WELL, leader=None), dead_letters=1, unreachable=(1,)))
    assert [alert.severity.value for alert in found] == ["serious", "warning", "warning"]
    assert found[-1].text.startswith("1 dead letter:")


def test_a_database_that_is_away_is_told_once_with_the_members_that_miss_it():
    loads = {A: Load(away=("taskdb",)), B: Load(away=("projectdb", "taskdb"))}
    found = alerts(Observation(replace(WELL, loads=loads)))
    assert [(alert.kind, alert.severity) for alert in found] == [
        (AlertKind.AWAY, Severity.SERIOUS)
    ] * 2
    assert found[0].text.startswith("projectdb does not answer member 1:")
    assert found[1].text.startswith("taskdb does not answer members 0, 1:")


def test_projects_in_quarantine_are_counted_and_named_with_their_reasons():
    loads = {A: Load(quarantined=2)}
    reasons = {"shop": "rate is no number"}
    alert = only(Observation(replace(WELL, loads=loads), quarantine=reasons))
    assert (alert.kind, alert.severity) == (AlertKind.QUARANTINE, Severity.WARNING)
    assert alert.text == "2 projects in quarantine: shop (rate is no number)"


def test_what_cannot_be_read_is_told_by_path_and_key():
    znodes = {f"/crawl/members/junk{n}": "this is no Member" for n in range(6)}
    keys = {"newtask_queue:3": "is a string"}
    znode, key = alerts(Observation(replace(WELL, unreadable=znodes), unreadable=keys))
    assert znode.text.startswith("6 znodes passed over as unreadable: /crawl/members/junk0 (")
    assert znode.text.endswith("; ...")
    assert key.text == "1 key passed over as unreadable: newtask_queue:3 (is a string)"
    assert {znode.kind, key.kind} == {AlertKind.UNREADABLE}


def test_a_parking_lot_that_is_full_is_serious():
    alert = only(Observation(WELL, full=(1,)))
    assert (alert.kind, alert.severity) == (AlertKind.PARKED, Severity.SERIOUS)
    assert alert.text.startswith("no more messages can be parked for 1 slot (1):")


def test_what_a_processor_was_lost_to_is_told_for_as_long_as_its_successor_says_so():
    lost = replace(COMPONENT, lost="a processor was lost to task p:t http://site.example/: it died")
    components = {**WELL.components, ComponentKind.PROCESSOR: {"x": COMPONENT, "y": lost}}
    alert = only(Observation(replace(WELL, components=components)))
    assert (alert.kind, alert.severity) == (AlertKind.LOST, Severity.WARNING)
    assert (alert.text, alert.about) == (lost.lost, "h:1")


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
