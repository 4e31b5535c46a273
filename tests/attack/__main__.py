"""``python -m tests.attack [--short]``: all attacks, or those that take no two minutes.

Other options are pytest's, such as ``-k page``.
"""

import sys
from pathlib import Path

import pytest

from pyspider_zk.errors import MissingService
from tests.chaos.__main__ import MISSING, NOT_PERMITTED
from tests.chaos.network import NotPermitted, check_permission

SHORT = "--short"


def main() -> int:
    """Return pytest's exit code, or ``NOT_PERMITTED`` or ``MISSING`` as chaos does."""
    try:
        check_permission()
    except NotPermitted as reason:
        print(f"attacks are not permitted here: {reason}", file=sys.stderr)  # noqa: T201
        return NOT_PERMITTED
    except MissingService as missing:
        print(f"attacks cannot run here: {missing}", file=sys.stderr)  # noqa: T201
        return MISSING
    given = [option for option in sys.argv[1:] if option != SHORT]
    chosen = "attack and not slow" if SHORT in sys.argv else "attack"
    return pytest.main(["-m", chosen, str(Path(__file__).parent), *given])


if __name__ == "__main__":
    sys.exit(main())
