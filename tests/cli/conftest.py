"""The command line against a real broker."""

from __future__ import annotations

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
