"""The settings of the whole cluster: what they may be, and what a member makes of them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.cluster_settings import (
    RANGES,
    ClusterSettings,
    Maintenance,
    WeighBy,
    faults_of,
    in_force,
    taken_over,
    with_maintenance,
    with_rebalance,
    with_values,
)
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.errors import BadMessage, BadRequest, NotFound
from pyspider_zk.limits import MOST_SLOTS

numbers = st.integers(0, 20)


def of_range(name: str) -> st.SearchStrategy[float]:
    return st.floats(RANGES[name].least, RANGES[name].most)


@st.composite
def valid_settings(draw) -> ClusterSettings:
    return ClusterSettings(
        draw(st.none() | of_range("lease")),
        draw(st.none() | of_range("renewal")),
        draw(of_range("restart_delay")),
        draw(st.integers(1, MOST_SLOTS)),
        draw(st.sampled_from(Maintenance)),
        tuple(sorted(draw(st.sets(numbers)))),
        draw(st.dictionaries(st.integers(0, MOST_SLOTS - 1), numbers)),
        draw(st.sampled_from(WeighBy)),
        draw(of_range("weigh_every")),
        draw(st.booleans()),
    )


valid = valid_settings().filter(lambda made: not faults_of(made))


@st.composite
def own_settings(draw) -> Settings:
    lease = draw(st.floats(0.5, 60))
    budget = draw(st.floats(0, 0.499 * lease))  # it is written with twelve digits
    return Settings(
        lease=lease,
        renewal=max(0.1, lease / draw(st.floats(3.1, 10))),
        hang=lease + 1,
        budget=budget,
    )


@given(valid)
def test_settings_are_read_as_they_were_written(settings):
    assert ClusterSettings.decode(settings.encode()) == settings


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"no json",
        b"[]",
        b'{"lease": "long"}',
        b'{"lease": 0}',
        b'{"lease": 1e400}',
        b'{"lease": 601}',
        b'{"lease": 3, "renewal": 2}',
        b'{"restart_delay": -1}',
        b'{"moves": 0}',
        b'{"moves": 2.5}',
        b'{"moves": %s}' % (b"9" * 400),
        b'{"moves": -%s}' % (b"9" * 400),
        b'{"maintenance": "perhaps"}',
        b'{"weigh_by": "perhaps"}',
        b'{"weigh_by": null}',
        b'{"weigh_every": 0}',
        b'{"evicted": [-1]}',
        b'{"pins": {"0": -1}}',
        b'{"pins": {"16384": 1}}',
        b'{"pins": {"zero": 1}}',
    ],
)
def test_what_are_no_settings_is_refused(junk):
    with pytest.raises(BadMessage):
        ClusterSettings.decode(junk)


def test_an_order_of_maintenance_ends_a_rebalancing():
    asked = with_rebalance(ClusterSettings(maintenance=Maintenance.HOLD))

    assert (asked.rebalance, in_force(asked).maintenance) == (True, Maintenance.OFF)
    for mode in Maintenance:
        assert with_maintenance(asked, mode) == ClusterSettings(maintenance=mode)


def test_without_maintenance_there_is_no_rebalancing_to_ask_for():
    assert with_rebalance(ClusterSettings()) == ClusterSettings()


def test_what_a_newer_version_writes_beside_them_is_ignored():
    assert ClusterSettings.decode(b'{"moves": 5, "color": "red"}') == ClusterSettings(moves=5)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lease": 1000}, "lease: 1000 must be from 0.5 to 600"),
        ({"lease": math.nan}, "lease"),
        ({"moves": 1.5}, "moves"),
        ({"moves": 10**400}, "moves: so large a number must be from 1 to 16384"),
        ({"lease": 10**400}, "lease"),
        ({"lease": True}, "lease"),
        ({"lease": "5"}, "lease"),
        ({"weigh_by": "size"}, "weigh_by"),
        ({"weigh_by": 1}, "weigh_by"),
        ({"weigh_every": 0.5}, "weigh_every: 0.5 must be from 1 to 86400"),
        ({"lease": 3, "renewal": 2}, "three renewals"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_reason(values, words):
    with pytest.raises(BadRequest, match=words):
        with_values(ClusterSettings(), values)


@pytest.mark.parametrize("name", ["leese", "pins", "maintenance", "evicted", "encode", ""])
def test_a_name_that_is_no_setting_is_refused(name):
    with pytest.raises(NotFound, match="no cluster-wide setting"):
        with_values(ClusterSettings(), {name: 1})


def test_a_slip_is_told_the_likely_name():
    with pytest.raises(NotFound, match="did you mean lease"):
        with_values(ClusterSettings(), {"leese": 1})


def test_a_word_is_set_and_unset():
    by_projects = with_values(ClusterSettings(), {"weigh_by": "projects"})

    assert by_projects == ClusterSettings(weigh_by=WeighBy.PROJECTS)
    assert with_values(by_projects, {"weigh_by": None}) == ClusterSettings()


def test_what_is_unset_is_the_default_again():
    assert with_values(ClusterSettings(lease=6.0, moves=5), {"lease": None, "moves": None}) == (
        ClusterSettings()
    )


@given(own_settings(), valid)
def test_a_member_can_take_over_any_settings(own, shared):
    taken = taken_over(own, shared)

    assert taken.lease == (shared.lease or own.lease)
    assert taken.renewal <= (shared.renewal or own.renewal)
    section = {
        name: f"{getattr(taken, name):.12f}" for name in ("lease", "renewal", "hang", "budget")
    }
    settings_from(section)  # raises what a configuration must not be
    others = {name: getattr(own, name) for name in ("lease", "renewal", "hang", "budget")}
    assert replace(taken, **others) == own


@given(own_settings())
def test_without_a_cluster_wide_lease_or_renewal_a_members_own_settings_stand(own):
    assert taken_over(own, ClusterSettings(restart_delay=5.0, moves=3)) == own
