"""Rules that no server of the tests can break."""

from dataclasses import replace

import pytest

from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.records import Assignment, Cluster, Load, Member, Meta
from pyspider_zk.config import Settings
from pyspider_zk.doctor.cluster_rules import (
    ClusterFacts,
    clock_finding,
    cluster_clock_findings,
    cluster_findings,
    secret_finding,
)
from pyspider_zk.doctor.entrances import Entrance, entrance_finding
from pyspider_zk.doctor.findings import Finding, Grade
from pyspider_zk.doctor.machine_rules import (
    KeptFile,
    file_findings,
    package_findings,
    secret_findings,
)
from pyspider_zk.doctor.redis_rules import redis_findings
from pyspider_zk.doctor.zookeeper_rules import zookeeper_findings
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.queues.redis_facts import RedisFacts, SentinelView
from pyspider_zk.zookeeper.facts import ServerAnswer, ZooKeeperFacts

FIRST, SECOND = MemberId(0, "a"), MemberId(1, "b")
NOW = 1_800_000_000.0
SERVERS = tuple(ServerAnswer(f"zk{n}:2181", "", "3.8.0", "follower") for n in range(3))
ENSEMBLE = ZooKeeperFacts(SERVERS, 3, 0.001, 10.0, (), (), True)
REDIS = RedisFacts("redis1", 6379, True, "7.0.15", 0.001, 0.0, False, {}, "everysec")
SETTINGS = Settings(username="crawl", password="x", tls=True)  # noqa: S106


def member(host: str = "box-1", version: str = "1", started: float = NOW) -> Member:
    return Member(f"{host}:23333", host, 1, version, started)


def cluster(**members: Member) -> Cluster:
    known = dict(zip((FIRST, SECOND), members.values(), strict=False))
    return Cluster(Meta(256), Assignment.vacant(256), members=known)


def texts(findings: list[Finding], grade: Grade) -> list[str]:
    return [each.text for each in findings if each.grade is grade]


def of_zookeeper(facts: ZooKeeperFacts, grade: Grade, settings: Settings = SETTINGS) -> str:
    return "\n".join(texts(list(zookeeper_findings(facts, settings)), grade))


def of_redis(facts: RedisFacts, grade: Grade) -> str:
    return "\n".join(texts(list(redis_findings(facts, SETTINGS)), grade))


def test_three_servers_are_well():
    assert of_zookeeper(ENSEMBLE, Grade.WARNING) == of_zookeeper(ENSEMBLE, Grade.FAILED) == ""
    assert "an ensemble of 3, quorum 2" in of_zookeeper(ENSEMBLE, Grade.OK)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ensemble": 1, "servers": SERVERS[:1]}, "one server; while it is down"),
        ({"ensemble": 4, "servers": (*SERVERS, SERVERS[0])}, "an ensemble of 4, quorum 3"),
        ({"ensemble": 5}, "hosts names only 3"),
        ({"ensemble": 0}, "is not shown"),
        ({"latency": 0.5}, "leaves little room"),
        ({"readable": ("/crawl",)}, "everybody may read /crawl"),
        ({"servers": (ServerAnswer("zk0:2181"),) * 3}, "the version is not shown"),
    ],
)
def test_an_ensemble_to_be_warned_of(changes: dict[str, object], text: str):
    assert text in of_zookeeper(replace(ENSEMBLE, **changes), Grade.WARNING)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"latency": 2.0}, "longer than a renewal"),
        ({"servers": (replace(SERVERS[0], version="3.4.14"),) * 3}, "version 3.4.14 is too old"),
        ({"changeable": ("/crawl", "/crawl/ids")}, "everybody may change /crawl, /crawl/ids"),
    ],
)
def test_an_ensemble_that_fails(changes: dict[str, object], text: str):
    assert text in of_zookeeper(replace(ENSEMBLE, **changes), Grade.FAILED)


def test_no_login_and_no_tls_on_a_network():
    settings = Settings()
    assert "whoever reaches ZooKeeper" in of_zookeeper(ENSEMBLE, Grade.FAILED, settings)
    assert "no TLS" in of_zookeeper(ENSEMBLE, Grade.WARNING, settings)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": "6.0.16"}, "version 6.0.16 is too old"),
        ({"version": ""}, "version unknown is too old"),
        ({"latency": 0.2}, "longer than the budget"),
        ({"is_open": True}, "reachable without a password at redis1"),
        ({"info": {"role": "master", "aof_enabled": 1, "aof_last_write_status": "err"}}, "cannot"),
    ],
)
def test_a_redis_that_fails(changes: dict[str, object], text: str):
    assert text in of_redis(replace(REDIS, **changes), Grade.FAILED)


def test_a_redis_without_tls_on_a_network():
    assert "no TLS" in of_redis(replace(REDIS, tls=False), Grade.WARNING)


def sentinels(*masters: str, replicas: int = 1) -> tuple[SentinelView, ...]:
    return tuple(
        SentinelView(f"s{number}", master=master, is_up=True, replicas=replicas)
        for number, master in enumerate(masters)
    )


NAMED = "redis1:6379"


def test_three_sentinels_that_name_one_master_are_well():
    facts = replace(REDIS, sentinels=sentinels(NAMED, NAMED, NAMED))
    assert "3 of 3 sentinels" in of_redis(facts, Grade.OK)
    assert "sentinel" not in of_redis(facts, Grade.WARNING) + of_redis(facts, Grade.FAILED)


@pytest.mark.parametrize(
    ("views", "text"),
    [
        (sentinels(NAMED, NAMED), "2 of 2 sentinels"),
        (
            (*sentinels(NAMED, NAMED, NAMED), SentinelView("s4", "gone")),
            "3 of 4 sentinels name; s4",
        ),
        ((*sentinels(NAMED, NAMED), SentinelView("s4")), "name; s4: another master"),
        (sentinels(NAMED, NAMED, "other:1"), "disagree: s0 names redis1:6379, s1 names"),
        (sentinels(NAMED, NAMED, NAMED, replicas=0), "no replica is connected"),
    ],
)
def test_sentinels_to_be_warned_of(views: tuple[SentinelView, ...], text: str):
    assert text in of_redis(replace(REDIS, sentinels=views), Grade.WARNING)


@pytest.mark.parametrize(
    ("ahead", "latency", "grade"),
    [
        (1.9, 0.0, Grade.OK),
        (-3.0, 0.0, Grade.WARNING),
        (-3.0, 2.0, Grade.OK),
        (100.0, 0.0, Grade.FAILED),
    ],
)
def test_a_clock(ahead: float, latency: float, grade: Grade):
    assert clock_finding("its clock", ahead, latency).grade is grade


def test_a_clock_is_named_with_its_direction():
    assert "3.0 s behind" in clock_finding("its clock", -3.0).text


def clocks(**given: object) -> list[Finding]:
    facts = {
        "cluster": replace(cluster(one=member()), loads={FIRST: Load(lease=4.0)}),
        "joined": {FIRST: NOW},
        "renewed": {FIRST: NOW - 1},
        "told": None,
        "now": NOW,
    }
    return list(cluster_clock_findings(ClusterFacts(**{**facts, **given})))


def test_clocks_that_agree():
    assert [each.grade for each in clocks()] == [Grade.OK]


def test_a_zookeeper_behind_by_more_than_a_lease():
    (found,) = clocks(renewed={FIRST: NOW - 30})
    assert found.grade is Grade.WARNING
    assert "ZooKeeper's clock is 30.0 s behind" in found.text


def test_a_member_that_started_after_it_joined():
    early = clocks(joined={FIRST: NOW - 90})
    assert "the clock of member 0, by ZooKeeper's, is 90.0 s ahead" in texts(early, Grade.FAILED)[0]


def test_an_event_that_was_written_before_it_happened():
    event = Event("joined", "member 0-a joined", NOW - 50)
    (told,) = texts(clocks(told=(event, NOW - 10)), Grade.WARNING)
    assert "who wrote the newest event, by ZooKeeper's, is 40.0 s behind" in told


def test_an_old_event_tells_nothing():
    event = Event("joined", "member 0-a joined", NOW - 9999)
    assert [each.grade for each in clocks(told=(event, NOW - 5000))] == [Grade.OK]


def found_in(known: Cluster, databases: dict[str, str], settings: Settings = SETTINGS):
    return list(cluster_findings(known, settings, databases, "1"))


def test_other_versions_are_named():
    known = cluster(one=member(), two=member("box-2", "0.9"))
    assert "member 1 has 0.9" in "\n".join(texts(found_in(known, {}), Grade.WARNING))


def test_a_protocol_that_some_do_not_speak_yet_names_them():
    old, new = member(), replace(member("box-2"), protocols=(1, 2))
    warned = "\n".join(texts(found_in(cluster(one=old, two=new), {}), Grade.WARNING))
    assert "some speak protocol 2, and the cluster goes by 1: member 0 cannot go higher" in warned


def test_a_protocol_that_all_speak_waits_for_the_operator():
    new = replace(member(), protocols=(1, 2))
    (found,) = [each for each in found_in(cluster(one=new), {}) if "higher protocol" in each.text]
    assert found.grade is Grade.WARNING
    assert "`pyspider-zk upgrade`" in found.remedy


def test_a_protocol_that_this_version_does_not_speak_cannot_join():
    known = replace(cluster(one=member()), meta=Meta(256, 2))
    (remedy,) = [each.remedy for each in found_in(known, {}) if each.grade is Grade.FAILED]
    assert "it is too old, start the version that the others run" in remedy


def test_a_file_for_two_machines_is_a_failure():
    known = cluster(one=member(), two=member("box-2"))
    (fault,) = texts(found_in(known, {"taskdb": "sqlite+taskdb:////x/task.db"}), Grade.FAILED)
    assert "taskdb is a file" in fault


def test_another_number_of_slots_cannot_join():
    found = found_in(cluster(one=member()), {}, replace(SETTINGS, slots=8))
    (remedy,) = [each.remedy for each in found if each.grade is Grade.FAILED]
    assert "born with 256 slots" in remedy


def test_a_cluster_without_members():
    assert texts(found_in(cluster(), {}), Grade.WARNING)


@pytest.mark.parametrize(
    ("host", "secret", "grade"),
    [
        ("10.0.0.1", "", Grade.FAILED),
        ("127.0.0.1", "", Grade.WARNING),
        ("10.0.0.1", "a secret of the tests", Grade.OK),
    ],
)
def test_a_missing_secret(host: str, secret: str, grade: Grade):
    known = cluster(one=member(host))
    assert secret_finding(known, Settings(secret=secret)).grade is grade


def entrance(address: str, is_open: bool | None) -> Finding:
    return entrance_finding(Entrance("the web UI", address, "run Python", "a login", is_open, "x"))


@pytest.mark.parametrize(
    ("address", "is_open", "grade"),
    [
        ("10.0.0.1:80", True, Grade.FAILED),
        ("[::1]:80", True, Grade.WARNING),
        ("10.0.0.1:80", False, Grade.WARNING),
        ("https://10.0.0.1:80", False, Grade.OK),
        ("127.0.0.1:80", False, Grade.OK),
        ("10.0.0.1:80", None, Grade.WARNING),
    ],
)
def test_an_entrance(address: str, is_open: bool | None, grade: Grade):
    assert entrance(address, is_open).grade is grade


@pytest.mark.parametrize("secret", ["changeme", "Password123!", "short", "aaaaaaaaaaaaaaaaaaaa"])
def test_a_secret_that_is_easily_guessed_is_not_repeated(secret: str):
    (found,) = secret_findings({"the password": secret})
    assert found.grade is Grade.WARNING
    assert secret not in found.text


def test_good_secrets():
    (found,) = secret_findings({"one": "4f9c2a7be81d03", "none": ""})
    assert found == Finding(Grade.OK, "1 secrets, none of them easily guessed")


@pytest.mark.parametrize(
    ("mode", "uid", "grades"),
    [
        (0o100600, 7, {Grade.OK}),
        (0o100440, 0, {Grade.OK}),
        (0o100644, 7, {Grade.FAILED}),
        (0o100600, 8, {Grade.OK, Grade.FAILED}),
        (0o40770, 7, {Grade.FAILED}),
        (None, 0, {Grade.FAILED}),
    ],
)
def test_a_file_with_a_secret(mode: int | None, uid: int, grades: set[Grade]):
    kept = KeptFile("the secret", "/x", mode, uid)
    assert {each.grade for each in file_findings(kept, 7)} == grades


LOCK = """
click==8.4 \\
    --hash=sha256:00
Async_Timeout==5.0 ; python_full_version < '3.11.3' \\
numpy==1.0 ; python_version < '3.13'
numpy==2.0 ; python_version >= '3.13'
"""


@pytest.mark.parametrize(
    ("installed", "text"),
    [
        ({"click": "8.4"}, ""),
        ({"click": "8.4", "numpy": "2.0"}, ""),
        ({"click": "8.5"}, "click 8.5"),
        ({"click": "8.4", "async-timeout": "4"}, "async-timeout 4"),
        ({}, "click of the lock file is not installed"),
    ],
)
def test_packages_are_those_of_the_lock_file(installed: dict[str, str], text: str):
    warned = texts(list(package_findings(LOCK, installed)), Grade.WARNING)
    assert text in "\n".join(warned)
    assert bool(warned) == bool(text)
