"""Every route of the web UI, with a real scheduler behind it."""

import json
from collections.abc import Iterator
from typing import Any
from xmlrpc.client import ServerProxy

import pytest

from tests.patches.spiders import Spider
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # each runs whole components of pyspider

QUEUES = ("newtask_queue", "status_queue", "scheduler2fetcher", "fetcher2processor")
AUTH = ("me", "secret")
FRONT = {"taskid": "t", "project": "demo", "process": {"callback": "front"}}


@pytest.fixture
def app(spider: Spider) -> Iterator[Any]:
    """Give the application on a spider's databases, with no scheduler to be reached."""
    from pyspider.webui.app import app

    config = dict(app.config)
    app.config.update(
        taskdb=spider.taskdb,
        projectdb=spider.projectdb,
        resultdb=spider.resultdb,
        queues=dict.fromkeys((*QUEUES, "processor2result"), spider.queues["out"]),
        scheduler_rpc=ServerProxy("http://127.0.0.1:1/", allow_none=True),
    )
    yield app
    app.config.clear()
    app.config.update(config)


@pytest.fixture
def web(app: Any) -> Any:
    import pyspider.webui

    assert pyspider.webui.app.app is app
    return app.test_client()


@pytest.fixture
def crawled(spider: Spider, app: Any, script: str) -> None:
    """A crawled project and its scheduler."""
    spider.add_project("demo", script)
    scheduler = spider.scheduler()
    for component in (scheduler, spider.fetcher(), spider.processor(), spider.result_worker()):
        spider.start(component)
    app.config["scheduler_rpc"] = spider.serve(scheduler)
    client = app.test_client()
    eventually(lambda: client.post("/run", data={"project": "demo"}).json["result"])
    eventually(lambda: spider.titles("demo") == {"front", "one", "two"})
    taskdb = spider.taskdb
    eventually(lambda: taskdb.status_count("demo").get(taskdb.SUCCESS, 0) >= 4)


def update(web: Any, name: str, value: str, **kwargs: Any) -> Any:
    return web.post("/update", data={"pk": "demo", "name": name, "value": value}, **kwargs)


def debug(web: Any, script: str, url: str) -> Any:
    task = json.dumps({**FRONT, "url": url})
    return web.post("/debug/demo/run", data={"task": task, "script": script}).json


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/", "projects"),
        ("/tasks?project=p", "tasks?project=p"),
        ("/results?project=p", "results?project=p"),
        ("/task/p:http://a//b c?d=1&e", "task?project=p&id=http%3A%2F%2Fa%2F%2Fb+c"),
        ("/task/p:a%2F?c:d", "task?project=p&id=a%2F"),
        ("/debug/p?taskid=a%2F", "editor?project=p&taskid=a%2F"),
        ("/debug/p?start-urls=http://a/&x=y", "editor?project=p&start=http%3A%2F%2Fa%2F"),
    ],
)
def test_some_pages_lead_to_those_of_the_cluster(
    web: Any, app: Any, path: str, leads_to: str
) -> None:
    assert web.get(path).status_code == 404
    app.config["cluster_pages"] = "/cluster"
    assert web.get(path).headers["Location"] == f"/cluster/{leads_to}"


def test_the_form_of_a_new_project_leads_to_the_editor(web: Any, app: Any) -> None:
    app.config["cluster_pages"] = "/cluster"
    answer = web.post("/debug/p", data={"start-urls": "http://a/?b"})
    assert answer.headers["Location"] == "/cluster/editor?project=p&start=http%3A%2F%2Fa%2F%3Fb"


def test_queues_have_their_five_names(web: Any) -> None:
    assert web.get("/queues").json == dict.fromkeys((*QUEUES, "processor2result"), 0)


def test_an_update_without_a_scheduler_is_saved_and_says_rpc_error(
    web: Any, spider: Spider
) -> None:
    spider.add_project("demo", "")
    reply = update(web, "status", "STOP")
    assert (reply.status_code, reply.text) == (200, "rpc error")
    assert spider.projectdb.get("demo")["status"] == "STOP"


def test_updates_that_make_no_sense_are_refused(web: Any, spider: Spider) -> None:
    assert update(web, "status", "STOP").status_code == 404
    spider.add_project("demo", "")
    assert update(web, "script", "x").status_code == 400
    assert update(web, "rate", "1").status_code == 400
    assert update(web, "rate", "x/y").status_code == 500


def test_a_locked_project_wants_a_login(web: Any, app: Any, spider: Spider) -> None:
    spider.add_project("demo", "", group="lock")
    app.config.update(webui_username=AUTH[0], webui_password=AUTH[1])
    assert update(web, "status", "STOP").status_code == 401
    assert update(web, "status", "STOP", auth=("me", "wrong")).status_code == 401
    assert update(web, "status", "STOP", auth=AUTH).status_code == 200
    assert web.post("/run", data={"project": "demo"}).status_code == 401
    assert web.post("/debug/demo/save", data={"script": ""}).status_code == 401


def test_with_need_auth_every_page_wants_a_login(web: Any, app: Any) -> None:
    app.config.update(need_auth=True, webui_username=AUTH[0], webui_password=AUTH[1])
    assert web.get("/").status_code == 401
    assert web.get("/", auth=AUTH).status_code == 404  # of no cluster


def test_without_a_scheduler_the_pages_say_so(web: Any, spider: Spider) -> None:
    spider.add_project("demo", "")
    assert web.get("/counter").json == {}
    assert web.post("/run", data={"project": "demo"}).json == {"result": False}
    assert web.get("/active_tasks").status_code == 502


def test_running_an_unknown_project_is_a_404(web: Any) -> None:
    assert web.post("/run", data={"project": "absent"}).status_code == 404


@pytest.mark.usefixtures("crawled")
def test_a_crawl_is_seen_on_every_page(web: Any) -> None:
    assert update(web, "rate", "5/7").text == "ok"
    counter = web.get("/counter").json["demo"]
    assert set(counter) == {"5m_time", "5m", "1h", "1d", "all", "paused"}
    assert counter["all"]["success"] >= 3  # the last one is counted after it is written
    active = web.get("/active_tasks?project=demo&limit=2").json
    assert [each["project"] for each in active] == ["demo", "demo"]
    assert "updatetime_text" in active[0]
    assert web.get("/task/demo:on_start.json").json["status_string"] == "SUCCESS"
    assert web.get("/task/demo:absent.json").json["code"] == 404
    assert web.get("/task/absent").status_code == 400


@pytest.mark.parametrize("end", ["json", "txt", "csv", "json?style=full"])
def test_a_project_without_results_has_an_empty_dump(spider: Spider, web: Any, end: str) -> None:
    spider.add_project("demo", "")
    dump = web.get(f"/results/dump/demo.{end}")
    assert (dump.status_code, dump.text.strip() or "[]") == (200, "[]")
    assert web.get(f"/results/dump/absent.{end}").status_code == 404


@pytest.mark.usefixtures("crawled")
def test_results_are_dumped_in_three_formats(web: Any) -> None:
    rows = [json.loads(row) for row in web.get("/results/dump/demo.json").text.splitlines()]
    assert {row["result"]["title"] for row in rows} == {"front", "one", "two"}
    assert len(web.get("/results/dump/demo.json?limit=2").text.splitlines()) == 2
    assert len(web.get("/results/dump/demo.json?style=full").json) == 3
    assert len(web.get("/results/dump/demo.txt").text.splitlines()) == 3
    assert web.get("/results/dump/demo.csv").text.startswith("url,title,...")
    assert web.get("/results/dump/absent.json").status_code == 404
    assert web.get("/results/dump/demo.xml").status_code == 404


def test_a_script_is_saved_and_read_back(web: Any, spider: Spider, script: str) -> None:
    assert web.post("/debug/demo/save", data={"script": script}).status_code == 200
    assert web.get("/debug/demo/get").json == {"name": "demo", "script": script}
    assert spider.projectdb.get("demo")["status"] == "TODO"


def test_saving_a_running_script_makes_it_checking(web: Any, spider: Spider) -> None:
    spider.add_project("demo", "")
    web.post("/debug/demo/save", data={"script": "# new"})
    assert spider.projectdb.get("demo")["status"] == "CHECKING"


def test_a_large_script_may_be_saved(web: Any) -> None:
    script = "#" * 1_000_000
    assert web.post("/debug/demo/save", data={"script": script}).status_code == 200


def test_a_project_name_must_be_a_word(web: Any) -> None:
    assert web.get("/debug/a b/get").status_code == 400
    assert web.post("/debug/a b/save", data={"script": ""}).status_code == 400


def test_a_script_is_run_in_the_debugger(web: Any, site: str, script: str) -> None:
    result = debug(web, script, f"{site}/")
    assert result["fetch_result"]["status_code"] == 200
    assert [follow["url"] for follow in result["follows"]] == [f"{site}/1", f"{site}/2"]
    assert "{'title': 'front'}" in result["logs"]


def test_the_debugger_shows_where_a_script_fails(web: Any, site: str, script: str) -> None:
    failing = script.replace("for each in", "1 / 0\n        for each in")
    assert "in front\n        1 / 0" in debug(web, failing, f"{site}/")["logs"]
    assert "SyntaxError" in debug(web, "class", f"{site}/")["logs"]
    broken = web.post("/debug/demo/run", data={"task": "{", "script": ""})
    assert broken.json["logs"] == "task json error"


@pytest.mark.parametrize(
    "how", ["from projects.library import NAME", "from projects import library"]
)
def test_the_debugger_runs_the_latest_version_of_an_imported_project(
    web: Any, spider: Spider, site: str, how: str
) -> None:
    spider.add_project("library", "NAME = 'first'\n")
    name = "NAME" if how.endswith("NAME") else "library.NAME"
    script = (
        "from pyspider.libs.base_handler import *\n"
        f"{how}\n"
        "class Handler(BaseHandler):\n"
        f"    def front(self, response):\n        return {{'name': {name}}}\n"
    )
    assert debug(web, script, f"{site}/")["result"] == {"name": "first"}
    spider.projectdb.update("library", {"script": "NAME = 'second'\n"})
    assert debug(web, script, f"{site}/")["result"] == {"name": "second"}


def test_the_debugger_shows_what_is_stored_of_a_result(web: Any, site: str) -> None:
    script = (
        "import datetime\n"
        "from pyspider.libs.base_handler import *\n"
        "class Handler(BaseHandler):\n"
        "    def front(self, response):\n        return {'when': [WHEN]}\n"
    )
    good = debug(web, script.replace("WHEN", "datetime.date(2020, 1, 2)"), f"{site}/")
    assert good["result"] == {"when": ["2020-01-02"]}
    assert "{'when': ['2020-01-02']}" in good["logs"]
    bad = debug(web, script.replace("WHEN", "response"), f"{site}/")
    assert "result['when'][0] cannot be stored: it is a Response" in bad["logs"]


def test_the_small_pages_answer(web: Any) -> None:
    assert web.get("/blank.html").text == ""
    assert "Disallow: /" in web.get("/robots.txt").text
