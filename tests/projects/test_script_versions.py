"""Versions of scripts, in each database that projects may be in."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.projects.script_versions import KEPT, ScriptVersions
from tests.patches.databases import Databases

AT = 1764398000.123


@pytest.fixture
def versions(backend: Databases) -> Iterator[ScriptVersions]:
    with closing(ScriptVersions(backend.connect("project"))) as made:
        yield made


def test_what_was_saved_is_found_the_newest_first(versions: ScriptVersions) -> None:
    assert versions.versions("p") == []
    versions.keep("p", "# ä 𝄞\r\n" * 20_000, "ann", AT)
    for project in ("p", "P"):
        versions.keep(project, "two", "", AT + 1)
        versions.keep(project, "two", "bob", AT + 2)  # no other script
    assert versions.versions("p") == [(AT + 1, ""), (AT, "ann")]
    assert versions.script("p", AT) == "# ä 𝄞\r\n" * 20_000
    assert versions.script("P", AT) is None
    versions.drop(["p", "q"])
    assert versions.versions("p") == []
    assert versions.script("P", AT + 1) == "two"


def test_the_newest_are_kept_in_the_order_of_saving_whatever_the_clocks_say(
    versions: ScriptVersions,
) -> None:
    for number in range(KEPT + 2):
        versions.keep("p", str(number), "", AT - number)
    found = [versions.script("p", each.saved_at) for each in versions.versions("p")]
    assert found == [str(number) for number in range(KEPT + 1, 1, -1)]


def test_those_of_projects_that_are_gone_go(backend: Databases) -> None:
    projectdb = backend.connect("project")
    projectdb.insert("there", {"script": "s"})
    with closing(ScriptVersions(projectdb)) as versions:
        for project in ("there", "gone"):
            versions.keep(project, "s", "", AT)
        versions.forget_gone()
        assert versions.versions("there") == [(AT, "")]
        assert versions.versions("gone") == []


def test_a_database_that_can_keep_none_says_so() -> None:
    with pytest.raises(Unavailable, match="class object keeps no archive"):
        ScriptVersions(object()).versions("p")
