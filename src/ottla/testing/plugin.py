"""Fixtures for pytest, which loads this module by itself where Ottla is installed.

Nothing else is imported before a test asks for a fixture: every test run pays for what is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.testing import SEED_VARIABLE

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
        f"{MARKER}(nodes=3, settings=None, node_settings=None): what the fixture of the same name "
        "is to be",
    )
    if (seed := config.getoption(SEED_OPTION)) is not None:
        patch = pytest.MonkeyPatch()
        patch.setenv(SEED_VARIABLE, str(seed))
        config.add_cleanup(patch.undo)


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator[Cluster]:
    """One node for all tests of the run: give each test topics and groups of its own."""
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
