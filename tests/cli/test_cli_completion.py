"""The shell completes names of topics and groups, and never shows an error."""

from __future__ import annotations

import time

import pytest
from cli_tools import Run, execute

NOWHERE = "127.0.0.1:1"


def proposals(line: str, bootstrap: str) -> list[str]:
    """What bash would be told, with the cursor at the end of the line."""
    words = line.split(" ")
    done = execute(
        environment={
            "_OTTLA_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "OTTLA_BOOTSTRAP": bootstrap,
        }
    )
    assert done.code == 0
    assert done.err == ""
    return done.text.split()


@pytest.fixture(scope="module")
def named(broker: object) -> str:
    address: str = broker.address  # type: ignore[attr-defined]
    environment = {"OTTLA_BOOTSTRAP": address}
    execute("topics", "create", "complete-a", "complete-b", environment=environment)
    execute("consume", "complete-a", "--group", "completed", "-e", environment=environment)
    offsets = ("groups", "reset-offsets", "completed", "--topic", "complete-a", "--to-earliest")
    execute(*offsets, "--execute", environment=environment)
    return address


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ottla topics describe complete-", ["complete-a", "complete-b"]),
        ("ottla topics describe complete-a complete-", ["complete-a", "complete-b"]),
        ("ottla consume complete-b", ["complete-b"]),
        ("ottla configs describe --topic complete-a", ["complete-a"]),
        ("ottla groups delete complet", ["completed"]),
        ("ottla consume complete-a --group complet", ["completed"]),
        ("ottla topics --describe --topic complete-a", ["complete-a"]),
        ("ottla offsets __consumer_off", ["__consumer_offsets"]),
        ("ottla top", ["topics"]),
    ],
)
def test_names_are_completed(named: str, line: str, wanted: list[str]) -> None:
    assert proposals(line, named) == wanted


def test_the_platforms_own_names_are_proposed_only_once_begun(named: str) -> None:
    assert not any(name.startswith("__") for name in proposals("ottla consume ", named))


def test_nobody_at_the_address_means_no_proposal(named: str) -> None:
    began = time.monotonic()
    assert proposals("ottla topics describe ", NOWHERE) == []
    assert proposals("ottla topics describe -X nonsense ", named) == []
    assert proposals("ottla topics describe --command-config /no/such/file ", named) == []
    assert time.monotonic() - began < 30


def test_the_address_on_the_line_counts(named: str) -> None:
    line = f"ottla topics describe --bootstrap {named} complete-a"
    assert proposals(line, NOWHERE) == ["complete-a"]


def test_zsh_and_fish_are_served_too(ottla: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        shown = execute(environment={"_OTTLA_COMPLETE": f"source_{shell}"})
        assert "ottla" in shown.text
