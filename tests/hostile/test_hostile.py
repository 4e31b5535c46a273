"""Hostile pages and strangers hold nobody up, end nothing, and leave nothing behind: in short."""

from pathlib import Path

import pytest

from tests.hostile.besieged import besieged
from tests.hostile.kinds import KINDS
from tests.hostile.load import LOADS
from tests.hostile.run import under_pages, under_strangers
from tests.support.needed import skip_without_needed

PAGES = 150
AT_ONCE = 10


@pytest.mark.hostile
@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_pages_and_strangers_hold_up_nobody(tmp_path: Path) -> None:
    quick = [kind for kind in KINDS if not kind.slow]
    with skip_without_needed(), besieged(tmp_path) as cluster:
        assert list(under_pages(cluster, quick, PAGES)) == []
        assert list(under_strangers(cluster, LOADS, AT_ONCE)) == []
