"""Larger clusters, at random: what the search cannot visit whole."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cluster.protocol_leader import lead
from tests.cluster.protocol_search import fault_of, recovery
from tests.cluster.protocol_states import birth, tidy
from tests.cluster.protocol_world import (
    ALL,
    RESTARTS,
    faults_in,
    follow,
    forget_answers,
    steps,
    time_passes,
)


class LargeCluster(RuleBasedStateMachine):
    """Four to six members and eight slots; single steps, and whole turns to get somewhere."""

    @initialize(members=st.integers(4, 6))
    def begin(self, members):
        forget_answers()  # some other test may have changed a rule
        self.state = birth(members, slots=8)
        self.faults = 6

    @rule(data=st.data())
    def any_step(self, data):
        self._take_one_of(data, dict(steps(self.state)))

    @precondition(lambda self: self.faults)
    @rule(data=st.data())
    def any_fault(self, data):
        self.faults -= 1
        self._take_one_of(data, dict(faults_in(self.state, faults=(*ALL, *RESTARTS))))

    def _take_one_of(self, data, labelled):
        if labelled:
            self.state = tidy(labelled[data.draw(st.sampled_from(sorted(labelled)))])

    @rule()
    def time_passes(self):
        self.state = time_passes(self.state)

    @rule()
    def all_members_take_their_turn(self):
        self.state = follow(self.state)

    @rule()
    def the_leader_takes_its_turn(self):
        self.state = lead(self.state)

    @invariant()
    def no_fence_is_open_that_should_not(self):
        state = getattr(self, "state", None)
        assert state is None or fault_of(state) is None

    def teardown(self):
        if hasattr(self, "state"):
            recovery().check(self.state)


class TestLargeCluster(LargeCluster.TestCase):
    settings = settings(max_examples=15, stateful_step_count=50, deadline=None)


@pytest.mark.soak
class TestLargeClusterForLong(LargeCluster.TestCase):
    settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
