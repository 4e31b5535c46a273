"""A cluster on several machines to attack, and the figures of what was tried."""

from collections.abc import Callable, Iterator

import pytest

from tests.attack.machines import Machines
from tests.support.needed import skip_without_needed
from tests.support.network import check_permission

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="module")
def _permitted() -> None:
    """Skip, if this machine permits no namespaces; nothing else is an excuse."""
    with skip_without_needed():
        check_permission()


@pytest.fixture(scope="module")
def machines(_permitted: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Run a cluster on several machines."""
    with Machines(tmp_path_factory.mktemp("machines")) as started:
        yield started


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Give a function that notes how much was tried, for the end of the run."""
    figures = request.config.stash.setdefault(_FIGURES, [])
    return lambda figure: figures.append(f"{request.node.name}: {figure}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried."""
    if figures := terminalreporter.config.stash.get(_FIGURES, []):
        terminalreporter.section("what was tried")
        for figure in sorted(figures):
            terminalreporter.line(figure)
