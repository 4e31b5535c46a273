"""The checker finds every lie that is told about an honest run, wherever it is told.

``recorded/`` holds what two runs left, of the real system: one of drains and joins alone, one of
all kinds of faults. ``README.md`` tells how they were made.
"""

import random
import tarfile
from pathlib import Path

import pytest

from tests.chaos.checks import PROMISES, findings
from tests.chaos.history import History, Hit, load
from tests.chaos.lies import LIES

RECORDED = Path(__file__).parent / "recorded"
RUNS = ("calm", "mixed")
NEEDS_QUIET = {"sent again while under way", "rescued after the time-out"}
"""What a fault might explain; so many of them leave no place where none does."""

PLACES = 33
"""In so many places each lie is told, or in all that there are."""


@pytest.fixture(scope="module", params=RUNS)
def honest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp(request.param)
    with tarfile.open(RECORDED / f"{request.param}.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):  # Debian 12 has none yet
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)  # noqa: S202 - it is of this repository
    return load(folder)


def test_nothing_is_found_of_an_honest_run(honest: History) -> None:
    assert {name: found for name, found in findings(honest).items() if found} == {}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found_wherever_it_is_told(honest: History, name: str) -> None:
    lie = LIES[name]
    places = list(lie.places(honest))
    chosen = random.Random(name).sample(places, min(PLACES, len(places)))  # noqa: S311
    found = [bool(PROMISES[lie.promise](lie.tell(honest, place))) for place in chosen]

    assert found or (name in NEEDS_QUIET and len(honest.hits) > len(_planned(honest)))
    assert found.count(True) == len(found)


def _planned(history: History) -> list[Hit]:
    return [hit for hit in history.hits if hit.kind in ("drain", "join")]
