"""Readers and writers of these tests run in the process of the test, which others share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.spark.sink import connection
from ottla.spark.source import range_reader


@pytest.fixture(scope="module", autouse=True)
def nothing_kept() -> Iterator[None]:
    """Clients that are kept for the next task are closed with the last test."""
    yield
    range_reader._clients.close()
    connection._kept.close()
