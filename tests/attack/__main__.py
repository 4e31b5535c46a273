"""``python -m tests.attack``: all attacks; options are pytest's, such as ``-k browser``."""

import sys
from pathlib import Path

import pytest

from tests.chaos.__main__ import NOT_PERMITTED
from tests.chaos.network import NotPermitted, check_permission


def main() -> int:
    """Return pytest's exit code; ``NOT_PERMITTED`` if this machine permits no namespaces."""
    try:
        check_permission()
    except NotPermitted as reason:
        print(f"attacks are not permitted here: {reason}", file=sys.stderr)  # noqa: T201
        return NOT_PERMITTED
    return pytest.main(["-m", "attack", str(Path(__file__).parent), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
