"""The demo's handler script as pyspider runs it."""

import pytest
from pyspider.libs.response import rebuild_response
from pyspider.processor.project_module import ProjectManager

from pyspider_zk.demo.crawl import projects_of, script
from pyspider_zk.demo.demo import STALL
from pyspider_zk.demo.handler import HOME
from pyspider_zk.demo.site import DemoSite, pages

SITE = "http://127.0.0.1:8000/"
START_PAGE = """
    <title>Start</title>
    <a href="library/a.html#x">a</a> <a href="library/a.html">a</a> <a href="library/b.html">b</a>
    <a href="c-api/c.html">c</a> <a href=" about.html ">about</a> <a href="http://x/y.html">out</a>
    <a href="data.zip">data</a> <a href="search.html?q=1">query</a> <a name="none">none</a>
"""


def built(project):
    start = SITE + "index.html"
    text = script(start, projects_of(DemoSite(start, START_PAGE)))
    return ProjectManager.build_module(
        {"name": project, "group": "demo", "status": "RUNNING", "script": text, "updatetime": 0}
    )


def run(project, callback, html="", status=200, url=SITE + "index.html", save=None):
    module = built(project)
    task = {
        "project": project,
        "taskid": "t",
        "url": url,
        "fetch": {"save": save} if save else {},
        "process": {"callback": callback},
    }
    response = rebuild_response(
        {"url": url, "status_code": status, "content": html, "save": save, "headers": {}}
    )
    return module["instance"].run_task(module["module"], task, response)


def followed(result):
    return {task["url"] for task in result.follows}


def handed_over(result):
    return {project: urls for project, urls, *_ in result.messages}


def test_the_demo_is_more_patient_than_all_fetches_of_a_page_and_their_retries_take():
    wanted = ["retry_delay", "crawl_config"]
    told = run(HOME, "_on_get_info", save=wanted).save
    config, delay = told["crawl_config"], told["retry_delay"][""]
    (first,) = run(HOME, "on_start").follows

    assert first["schedule"]["retries"] == config["retries"]
    assert (config["timeout"] + delay) * (config["retries"] + 1) < STALL


def test_the_start_page_belongs_to_the_home_project():
    assert followed(run(HOME, "on_start")) == {SITE + "index.html"}


def test_another_project_starts_with_nothing_and_waits():
    result = run("docs_library", "on_start")

    assert result.exception is None
    assert result.follows == []


def test_a_page_leads_to_own_pages_and_hands_over_the_others():
    result = run(HOME, "page", START_PAGE)

    assert result.exception is None
    assert result.result == {"url": SITE + "index.html", "title": "Start"}
    assert followed(result) == {SITE + "about.html"}
    assert handed_over(result) == {
        "docs_library": [SITE + "library/a.html", SITE + "library/b.html"],
        "docs_c_api": [SITE + "c-api/c.html"],
    }


@pytest.mark.parametrize(
    "host",
    [
        "http://127.0.0.1:8000.evil",
        "http://127.0.0.1:8000@evil",
        "http://evil127.0.0.1:8000",
        "http://127.0.0.1:80001",
        "https://127.0.0.1:8000",
        "http://127.0.0.1",
    ],
)
def test_a_page_of_another_host_is_left_alone(host):
    result = run(HOME, "page", f'<a href="{host}/about.html">x</a>')

    assert result.exception is None
    assert followed(result) == set()


def test_what_was_handed_over_is_crawled():
    result = run("docs_library", "_on_message", save=(HOME, [SITE + "library/a.html"]))

    assert result.exception is None
    assert followed(result) == {SITE + "library/a.html"}


def test_a_dead_link_is_done_without_a_result():
    result = run(HOME, "page", "gone", status=404)

    assert result.exception is None
    assert result.result is None


@pytest.mark.parametrize("status", [500, 599])
def test_a_page_that_cannot_be_had_just_now_fails_and_will_be_retried(status):
    assert run(HOME, "page", status=status).exception is not None


def test_it_follows_the_links_that_the_walk_follows(tmp_path):
    targets = ("library/a.html", "library/b.html", "c-api/c.html", "about.html", "search.html")
    for name in targets:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "index.html").write_text(START_PAGE, encoding="utf-8")

    result = run(HOME, "page", START_PAGE)

    crawled = followed(result).union(*handed_over(result).values())
    assert crawled | {SITE + "index.html"} == pages(tmp_path, SITE)
