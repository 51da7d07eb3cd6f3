"""The page on troubleshooting quotes messages that Ottla prints."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
NOT_OURS = {"Address already in use", "localhost", "failed", "topics reassign", "read_committed"}
"""Of the system, of settings and commands: words that are not messages."""


@cache
def templates() -> list[str]:
    """Every text of the sources, with `...` where something is put in."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "..." for v in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"%[sdr]", "...", node.value))
    return [" ".join(text.split()) for text in found]


def messages() -> list[str]:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    return sorted(set(quoted) - NOT_OURS - {code.name for code in ErrorCode})


def is_printed(message: str) -> bool:
    wanted = re.compile(".*?".join(re.escape(part) for part in message.split("...")))
    return any(wanted.search(text) for text in templates())


def test_every_quoted_message_is_one_that_ottla_prints() -> None:
    assert len(messages()) >= 50
    missing = [message for message in messages() if not is_printed(message)]
    if missing:
        listed = "\n".join(missing)
        pytest.fail(
            f"no source has these; correct docs/troubleshooting.md:\n{listed}", pytrace=False
        )


def test_a_message_that_nobody_prints_is_noticed() -> None:
    assert not is_printed("the moon is made of ... cheese")
