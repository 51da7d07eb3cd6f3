"""The command line against a real broker."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from cli_tools import Run, call, execute


@pytest.fixture
def ottla(bootstrap: str) -> Run:
    """`ottla("topics", "list")` against the shared broker."""
    return lambda *arguments: call(*arguments, environment={"OTTLA_BOOTSTRAP": bootstrap})


@pytest.fixture
def program(bootstrap: str) -> Run:
    """The same as a program; takes `stdin`."""
    return lambda *arguments, stdin=b"": execute(
        *arguments, stdin=stdin, environment={"OTTLA_BOOTSTRAP": bootstrap}
    )


@pytest.fixture
def hangs_up() -> Iterator[None]:
    """Children end on SIGHUP, also where the tests themselves run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
