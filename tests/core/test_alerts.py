"""What an operator is told to look at."""

from dataclasses import replace

from pyspider_zk.core.alerts import Alert, AlertKind, Severity, Sight, Waiting, alerts
from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import (
    Assignment,
    Cluster,
    Component,
    ComponentKind,
    Member,
    MemberId,
    Meta,
    Slot,
)

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


def only(sight: Sight) -> Alert:
    (alert,) = alerts(sight)
    return alert


def test_a_cluster_that_is_well_has_no_alerts():
    sight = Sight(WELL, {A: 0.1, B: 1.0}, 4.0, {(Kind.STATUS, 2): Waiting(9, 1.0)}, 0)
    assert alerts(sight) == []


def test_what_is_unknown_is_no_alert():
    assert alerts(Sight()) == []


def test_nobody_leads():
    alert = only(Sight(replace(WELL, leader=None)))
    assert (alert.kind, alert.severity) == (AlertKind.NO_LEADER, Severity.SERIOUS)


def test_no_scheduler_runs_is_one_alert_not_three():
    nobody = replace(WELL, leader=None, members={})
    assert only(Sight(nobody)).kind is AlertKind.NO_MEMBER


def test_slots_of_an_owner_that_is_gone():
    alert = only(Sight(replace(WELL, members={A: RECORD})))
    assert alert.kind is AlertKind.UNSERVED
    assert alert.text.startswith("2 slots without a running owner")


def test_messages_for_slots_that_nobody_reads_are_counted():
    backlog = {
        (Kind.NEWTASK, 0): Waiting(5, 1.0),
        (Kind.NEWTASK, 1): Waiting(2, 1.0),
        (Kind.STATUS, 1): Waiting(1, 1.0),
        (Kind.STATUS, 9): Waiting(4, 1.0),  # there is no such slot
    }
    found = alerts(Sight(replace(WELL, members={A: RECORD}), backlog=backlog))
    unread = next(alert for alert in found if alert.kind is AlertKind.UNREAD)
    assert unread.text == "7 messages in slot queues that nobody reads: slots 1, 9"


def test_a_member_is_suspect_after_half_a_lease_and_serious_after_a_whole_one():
    assert alerts(Sight(WELL, {B: 2.0}, lease=4.0)) == []
    assert only(Sight(WELL, {B: 2.1}, lease=4.0)).severity is Severity.WARNING
    late = only(Sight(WELL, {B: 4.1}, lease=4.0))
    assert (late.kind, late.severity) == (AlertKind.SUSPECT, Severity.SERIOUS)


def test_a_kind_of_component_that_is_missing():
    without = {**WELL.components, ComponentKind.FETCHER: {}}
    assert only(Sight(replace(WELL, components=without))).text.startswith("no fetcher runs")


def test_the_worst_comes_first():
    found = alerts(Sight(replace(WELL, leader=None), dead_letters=1, unreachable=(1,)))
    assert [alert.severity.value for alert in found] == ["serious", "warning", "warning"]
    assert found[-1].text.startswith("1 dead letter:")
