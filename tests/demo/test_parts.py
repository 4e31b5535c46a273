"""Splitting a site into projects, and the script they get."""

import ast

from pyspider_zk.demo.parts import MOST, script, split

START = "http://h:1/docs/index.html"
OTHERS = [
    "http://x",
    "http://evilh:1",
    "http://h:1.evil",
    "http://h.evil",
    "http://h:1@evil",
    "http://h@evil",
    "http://h:12",
    "https://h:1",
    "//evil",
    "http://h:1\\\\.evil",
]


def page(*hrefs):
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)


def test_every_folder_that_the_start_page_links_to_is_a_part():
    parts = split(START, page("library/a.html", "library/b/c.html", "c-api/x.html", "top.html"))

    assert parts.site == "http://h:1/docs/"
    assert dict(parts.projects) == {
        "http://h:1/docs/library/": "docs_library",
        "http://h:1/docs/c-api/": "docs_c_api",
    }
    assert set(parts.names) == {"docs", "docs_library", "docs_c_api"}


def test_links_out_of_the_site_make_no_part():
    foreign = [f"{host}/docs/y/a.html" for host in OTHERS]

    assert split(START, page("../other/a.html", "img/a.png", *foreign)).names == ("docs",)
    assert split("http://h", page(*foreign)).names == ("docs",)


def test_links_that_are_no_addresses_make_no_part():
    links = ["http://[", "http://h:99999/docs/y/a.html", "http://h:1x/docs/y/a.html"]

    assert split(START, page(*links)).names == ("docs",)


def test_the_host_may_be_spelled_otherwise():
    parts = split("http://h/docs/index.html", page("HTTP://H:80/docs/library/a.html"))

    assert dict(parts.projects) == {"http://h/docs/library/": "docs_library"}


def test_two_folders_with_one_project_name_do_not_share_a_project():
    parts = split(START, page("c-api/a.html", "c_api/a.html"))

    assert len(parts.projects) == 1


def test_the_number_of_parts_has_a_limit():
    parts = split(START, page(*(f"f{number}/a.html" for number in range(MOST + 10))))

    assert len(parts.projects) == MOST


def test_the_script_is_python_that_knows_its_site():
    parts = split(START, page("library/a.html"))

    tree = ast.parse(script(parts))

    constants = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
    }
    assert constants["START"] == START
    assert constants["SITE"] == "http://h:1/docs/"
    assert constants["HOME"] == "docs"
    assert constants["PARTS"] == {"http://h:1/docs/library/": "docs_library"}


def test_an_address_cannot_break_out_of_the_script():
    parts = split("http://h:1/'\n\\1import os/index.html", "")

    assert ast.parse(script(parts))
