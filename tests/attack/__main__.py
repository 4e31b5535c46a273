"""``python -m tests.attack [--short]``: all attacks, or those that take no two minutes.

Other options are pytest's, such as ``-k page``.
"""

import sys
from pathlib import Path

import pytest

from tests.support.network import if_permitted

SHORT = "--short"


def main() -> int:
    """Return pytest's exit code, or ``NOT_PERMITTED`` or ``MISSING`` as chaos does."""
    return if_permitted(_attack)


def _attack() -> int:
    given = [option for option in sys.argv[1:] if option != SHORT]
    chosen = "attack and not slow" if SHORT in sys.argv else "attack"
    return pytest.main(["-m", chosen, str(Path(__file__).parent), *given])


if __name__ == "__main__":
    sys.exit(main())
