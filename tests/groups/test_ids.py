"""Numbers: no gaps, and the old one on return."""

from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.groups.ids import choose_number


def test_the_first_member_gets_number_zero():
    assert choose_number("a", {}, []) == 0


def test_a_name_gets_its_old_number_back():
    assert choose_number("b", {0: "a", 1: "b", 2: "c"}, [0]) == 1


def test_a_name_that_runs_already_under_its_number_gets_another():
    assert choose_number("a", {0: "a"}, [0]) == 1


def test_a_newcomer_fills_a_gap_rather_than_leaving_it():
    assert choose_number("c", {0: "a", 1: "b"}, [0]) == 1


def test_a_newcomer_leaves_the_number_of_an_absent_name_if_a_nameless_one_is_free():
    assert choose_number("", {0: "a", 1: "", 2: "b"}, [2]) == 1


def test_members_without_names_share_nothing_but_the_order():
    assert choose_number("", {0: "", 1: ""}, [0]) == 1


names = st.sampled_from(["", "a", "b", "c", "d"])


@given(st.lists(st.tuples(names, st.booleans(), st.integers(0, 9)), max_size=30))
def test_numbers_are_never_shared_and_newcomers_leave_no_gap(events):
    holders: dict[int, str] = {}
    running: list[int] = []
    for name, is_joining, victim in events:
        if is_joining:
            number = choose_number(name, holders, running)
            assert number not in running
            known = name and name in holders.values()
            assert known or number <= len(running)
            holders[number] = name
            running.append(number)
        elif running:
            running.pop(victim % len(running))
