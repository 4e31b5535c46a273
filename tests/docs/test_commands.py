"""Every command of the documentation is run by a walk through its page, or says why not."""

import re

from tests.docs.not_run import NOT_RUN, entry_of
from tests.docs.pages import ROOT, commands_of, pages
from tests.docs.test_walks_from_nothing import FROM_NOTHING
from tests.docs.test_walks_with_cluster import WITH_CLUSTER
from tests.docs.test_walks_with_servers import WITH_SERVERS

SAID = [each for page, text in pages().items() for each in commands_of(page, text)]
WALKED = {*FROM_NOTHING, *WITH_SERVERS, *WITH_CLUSTER}


def test_there_are_commands() -> None:
    assert len(SAID) > 100


def test_no_command_stands_in_a_list_where_no_walk_finds_it() -> None:
    hidden = re.compile(r"(?m)^[ \d.>*-]+```(sh|console)")
    assert [page for page, text in pages().items() if hidden.search(text)] == []


def test_every_command_is_run_or_has_a_reason() -> None:
    left_out = [each for each in SAID if each.page not in WALKED and not entry_of(each)]
    assert [str(each) for each in left_out] == [], (
        "name the page in a walk, or say in not_run.py why"
    )


def test_every_reason_is_of_a_command() -> None:
    assert set(NOT_RUN) - {entry_of(each) for each in SAID} == set()


def test_what_is_made_has_a_target() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    made = {each.text.split()[1] for each in SAID if each.text.startswith("make ")}
    assert made
    assert made - set(targets) == set()


def test_what_is_installed_from_a_file_is_there() -> None:
    files = {name for each in SAID for name in re.findall(r"requirements/\w+\.txt", each.text)}
    assert files
    assert {name for name in files if not (ROOT / name).is_file()} == set()


def test_every_walk_has_something_to_run() -> None:
    assert WALKED - {each.page for each in SAID if not entry_of(each)} == set()
