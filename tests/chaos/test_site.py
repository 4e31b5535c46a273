"""The site's graphs: a task that is lost stays lost, and duplicates are asked for all the same."""

from collections import Counter

import pytest

from tests.chaos.site import FAILING, LINKED, failing, links, projects

PAGES = 72


@pytest.mark.parametrize("graph", ["g0", "g1", "g2", "g3"])
def test_each_page_has_one_referrer_that_can_find_it(graph: str) -> None:
    """The other one is a page that it found itself."""
    ahead = Counter(
        link for page in range(PAGES) for link in links(graph, page, PAGES) if link > page
    )

    assert ahead == Counter(range(1, PAGES))


@pytest.mark.parametrize("graph", ["g0", LINKED])
def test_each_page_links_to_one_that_others_know_too(graph: str) -> None:
    for page in range(PAGES):
        children = {2 * page + 1, 2 * page + 2}
        assert len(set(links(graph, page, PAGES)) - children) <= 1

    referrers = Counter(link for page in range(PAGES) for link in links(graph, page, PAGES))
    assert any(count > 1 for count in referrers.values())


def test_all_pages_of_all_graphs_can_be_reached() -> None:
    for graph in {project.graph for project in projects()}:
        known = {0}
        while found := {link for page in known for link in links(graph, page, PAGES)} - known:
            known |= found
        assert known == set(range(PAGES))


def test_some_projects_fail_and_are_no_part_of_what_is_wanted() -> None:
    assert {project.graph for project in failing()} == {FAILING}
    assert not {project.name for project in failing()} & {project.name for project in projects()}
    assert "raise" in failing()[0].script("http://site")
