"""The demo's projects, and the script they get."""

import ast

from pyspider_zk.demo.crawl import MOST, projects_of, script
from pyspider_zk.demo.site import DemoSite

START = "http://h:1/docs/index.html"


def projects(*hrefs: str) -> set[str]:
    page = "".join(f'<a href="{href}">x</a>' for href in hrefs)
    return set(projects_of(DemoSite(START, page)))


def test_every_folder_that_the_start_page_links_to_has_a_project() -> None:
    found = projects("library/a.html", "library/b/c.html", "c-api/x.html", "top.html")

    assert found == {"docs", "docs_library", "docs_c_api"}


def test_links_out_of_the_site_make_no_project() -> None:
    links = [
        "../other/a.html",
        "img/a.png",
        "http://h:1.evil/docs/y/a.html",
        "//evil/docs/y/a.html",
    ]

    assert projects(*links, "http://[", "http://evil/?http://h:1/docs/y/a.html") == {"docs"}


def test_two_folders_with_one_name_share_a_project() -> None:
    assert projects("c-api/a.html", "c_api/a.html") == {"docs", "docs_c_api"}


def test_the_number_of_projects_has_a_limit() -> None:
    assert len(projects(*(f"f{number}/a.html" for number in range(MOST + 10)))) == MOST + 1


def test_the_script_is_python_that_knows_its_site_whatever_it_is_called() -> None:
    start = "http://h:1/'\n\\1import os/index.html"

    tree = ast.parse(script(start, ["docs", "docs_a"]))

    constants = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in tree.body[-2:]
        if isinstance(statement, ast.Assign)
    }
    assert constants == {"START": start, "PROJECTS": ("docs", "docs_a")}
