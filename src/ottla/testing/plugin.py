"""Fixtures for pytest, which loads this module by itself if Ottla is installed.

Nothing else is imported before a test uses a fixture, because every test run loads this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.testing import REPLAY_MARKER, SEED_VARIABLE

if TYPE_CHECKING:
    from ottla.testing.thread_cluster import Cluster

MARKER = "ottla_cluster"
SEED_OPTION = "--ottla-seed"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("ottla").addoption(
        SEED_OPTION,
        type=int,
        metavar="SEED",
        help=f"run simulated tests once, with this seed (as {SEED_VARIABLE}=SEED does)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(nodes=3, settings=None, node_settings=None, security=None): what the fixture of "
        "the same name is to be",
    )
    if (seed := config.getoption(SEED_OPTION)) is not None:
        patch = pytest.MonkeyPatch()
        patch.setenv(SEED_VARIABLE, str(seed))
        config.add_cleanup(patch.undo)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Print how to replay each failed simulation, below pytest's own summary."""
    yield
    for line in _replay_lines(terminalreporter.stats.get("failed", [])):
        terminalreporter.write_line(line)


def _replay_lines(failed: list[pytest.TestReport]) -> list[str]:
    """Find the commands in the reports' text: a report from another process has nothing else."""
    found = []
    for report in failed:
        for line in reversed(report.longreprtext.splitlines()):
            _, marker, command = line.partition(REPLAY_MARKER)
            if marker:
                found.append(f"replay it with: {command}")
                break
    return found


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator[Cluster]:
    """One node for all tests of the run: give each test its own topics and groups."""
    from ottla.testing.thread_cluster import cluster

    with cluster(nodes=1) as running:
        yield running


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes for this test alone, which may kill them."""
    from ottla.testing.thread_cluster import cluster

    marker = request.node.get_closest_marker(MARKER)
    with cluster(**(marker.kwargs if marker is not None else {})) as running:
        yield running
