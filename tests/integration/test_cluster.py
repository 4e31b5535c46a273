"""Schedulers come, go and die while a crawl goes on."""

import json
import signal
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import pytest
from pyspider.webui import app as stock_webui

from pyspider_zk.cluster.records import Member
from tests.integration.conftest import Crawl
from tests.support.processes import STOCK_PROGRAM

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

NAMES = [f"p{number}" for number in range(6)]
MANY = 360


def test_planned_moves_fetch_nothing_twice(crawl: Crawl) -> None:
    first, _ = crawl.scheduler(), crawl.scheduler()
    for component in ("fetcher", "processor", "result-worker"):
        crawl.start(component)
    webuis = [crawl.webui(), crawl.webui()]
    crawl.settled()
    crawl.run_projects(NAMES)

    crawl.wait_for(100)
    crawl.scheduler()
    crawl.wait_for(100)
    first.terminate()
    assert first.wait() == 0
    crawl.wait_for(100)
    crawl.end()

    assert crawl.fetched_once()
    for webui in webuis:  # each recomputes its numbers from what the owners hold
        assert _totals(webui) == {name: (crawl.tasks(name), 0, 0) for name in NAMES}


def test_a_scheduler_takes_only_its_share_and_gives_only_its_own(crawl: Crawl) -> None:
    leaver, _ = crawl.scheduler(), crawl.scheduler()
    before = crawl.settled().assignment.slots

    joined = crawl.member(crawl.scheduler())
    between = crawl.settled().assignment.slots

    moved = [new for old, new in zip(before, between, strict=True) if old != new]
    assert {slot.owner for slot in moved} == {joined}
    assert len(moved) <= len(between) / 3 + 1

    left = crawl.member(leaver)
    leaver.send_signal(signal.SIGTERM)
    assert leaver.wait() == 0
    after = crawl.settled().assignment.slots

    assert {old.owner for old, new in zip(between, after, strict=True) if old != new} == {left}


def test_stock_processors_and_scripts_reach_the_owner_through_the_stock_queues(
    crawl: Crawl,
) -> None:
    crawl.scheduler(), crawl.scheduler()
    crawl.start("processor", program=STOCK_PROGRAM)
    crawl.start("fetcher", program=STOCK_PROGRAM)
    crawl.start("result_worker", program=STOCK_PROGRAM)
    crawl.settled()

    crawl.run_projects(NAMES[:2])
    crawl.wait_for(100)
    crawl.end()


def test_a_task_costs_zookeeper_nothing_and_the_stock_web_ui_sees_all_of_them(
    crawl: Crawl,
    zookeeper_writes: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crawl.scheduler(), crawl.scheduler()
    for component in ("fetcher", "processor", "result-worker"):
        crawl.start(component)
    cluster = crawl.settled()
    told, written = crawl.renewals() + crawl.reports(), zookeeper_writes()

    crawl.run_projects(NAMES)
    crawl.wait_for(MANY)
    # The few: a component that joins late, and slots that move because they got projects.
    few = zookeeper_writes() - written - (crawl.renewals() + crawl.reports() - told)
    assert few <= 30 < MANY

    crawl.end()
    owners = {cluster.owner_of(name) for name in NAMES}
    assert len(owners) == 2, "both schedulers must own a project for this test to mean anything"

    for member in cluster.members.values():
        browser = _stock_browser(crawl, member, monkeypatch)

        counter = browser.get("/counter").json
        tasks = browser.get("/active_tasks?limit=1000").json
        update = browser.post("/update", data={"pk": NAMES[0], "name": "group", "value": "g"})

        assert all(counter[name]["all"]["success"] == crawl.tasks(name) for name in NAMES)
        assert {each["project"] for each in tasks} == set(NAMES)
        assert update.text == "ok"
    assert browser.post("/run", data={"project": NAMES[0]}).json == {"result": True}


def _totals(webui: str) -> dict[str, tuple[int, int, int]]:
    """Return each project's successes, failures and tasks that wait, as the dashboard has them."""
    with urlopen(f"{webui}/counter", timeout=30) as answer:  # noqa: S310 - ours
        counted = {name: counters["all"] for name, counters in json.load(answer).items()}
    kinds = ("success", "failed", "pending")
    return {name: tuple(found.get(kind, 0) for kind in kinds) for name, found in counted.items()}


def _stock_browser(crawl: Crawl, member: Member, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client of pyspider's own web UI that knows one scheduler's address."""
    config = {"scheduler_rpc": crawl.rpc(member)}
    config |= {f"{kind}db": crawl.database(kind) for kind in ("task", "project", "result")}
    for key, value in config.items():
        monkeypatch.setitem(stock_webui.app.config, key, value)
    return stock_webui.app.test_client()
