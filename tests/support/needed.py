"""What a test skips for: a program or a permission that the machine lacks."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyspider_zk.errors import MissingService
from tests.support.network import NotPermitted

NO_NAMESPACES = "no network namespaces"


@contextmanager
def skip_without_needed() -> Iterator[None]:
    """Skip the test if the block lacks a program, or is not permitted namespaces."""
    try:
        yield
    except MissingService as missing:
        pytest.skip(str(missing))
    except NotPermitted as reason:
        pytest.skip(f"{NO_NAMESPACES}: {reason}")
