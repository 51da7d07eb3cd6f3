"""A file that is not there: every command ends with 2 and names it, before it asks a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_tools import execute

from ottla.cli.failure import exit_code
from ottla.client.errors import BadSetting, TlsFailed

NONE = "none.txt"
NOWHERE = {"OTTLA_BOOTSTRAP": "127.0.0.1:1", "COLUMNS": "200"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("start", "--config", NONE),
        ("start", "--nodes", "3", "--config", NONE),
        ("produce", "t", "--file", NONE),
        ("topics", "list", "--command-config", NONE),
        ("topics", "list", "-X", "security.protocol=SSL", "-X", f"ssl.ca.location={NONE}"),
        ("topics", "reassign", "--plan", NONE),
        ("groups", "reset-offsets", "g", "--from-file", NONE),
        ("storage", "info", "--config", NONE),
        ("storage", "format", "-t", "id", "--config", NONE),
        ("dump-log", NONE),
        ("pipeline", "check", "none.txt.yaml"),
        ("pipeline", "check", "none.txt.py"),
        ("pipeline", "run", "none.txt.yaml"),
    ],
    ids=" ".join,
)
def test_a_file_that_does_not_exist_is_a_wrong_call(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = execute(*arguments, environment=NOWHERE)
    assert (outcome.code, outcome.out) == (2, b""), outcome.err
    (line,) = [line for line in outcome.err.splitlines() if "No such file or directory" in line]
    assert NONE in line
    assert "Traceback" not in outcome.err


def test_settings_that_cannot_be_used_are_a_wrong_call() -> None:
    assert exit_code(BadSetting("acks", "is none of 0, 1, all")) == 2
    assert exit_code(TlsFailed(None, "cannot read ca.pem: No such file or directory")) == 2
    assert exit_code(TlsFailed(("localhost", 9092), "not trusted")) == 1
