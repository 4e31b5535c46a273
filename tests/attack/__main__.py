"""``python -m tests.attack [--short]``: all attacks, or those that take no two minutes.

Other options are pytest's, such as ``-k page``.
"""

import sys
from pathlib import Path

import pytest

from tests.chaos.__main__ import NOT_PERMITTED
from tests.chaos.network import NotPermitted, check_permission

SHORT = "--short"


def main() -> int:
    """Return pytest's exit code; ``NOT_PERMITTED`` if this machine permits no namespaces."""
    try:
        check_permission()
    except NotPermitted as reason:
        print(f"attacks are not permitted here: {reason}", file=sys.stderr)  # noqa: T201
        return NOT_PERMITTED
    given = [option for option in sys.argv[1:] if option != SHORT]
    chosen = "attack and not slow" if SHORT in sys.argv else "attack"
    return pytest.main(["-m", chosen, str(Path(__file__).parent), *given])


if __name__ == "__main__":
    sys.exit(main())
