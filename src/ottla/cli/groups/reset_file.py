"""Offsets in a file, one partition per line: `topic,partition,offset`, or with the group in front.

Kafka's own tool writes and reads the same two formats.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from ottla.cli.given_file import CannotRead
from ottla.client.values import TopicPartition

OPTION = "--from-file"
Plan = dict[str, dict[TopicPartition, int]]
"""Group -> the offsets to set."""


def read_plan(path: str, groups: Sequence[str]) -> Plan:
    """Read the offsets of the groups from the file; each group must be in it."""
    text = sys.stdin.read() if path == "-" else _text_of(path)
    plan: Plan = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row or not any(field.strip() for field in row):
            continue
        group, place, offset = _row(row, f"{path}, line {number}", groups)
        plan.setdefault(group, {})[place] = offset
    for group in groups:
        if group not in plan:
            raise typer.BadParameter(f"{path} says nothing of group {group!r}", param_hint=OPTION)
    return {group: plan[group] for group in groups}


def _text_of(path: str) -> str:
    # Spreadsheets write a byte order mark; bytes that are no text show in the line that is refused.
    try:
        return Path(path).read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise CannotRead(path, error) from error


def _row(row: list[str], where: str, groups: Sequence[str]) -> tuple[str, TopicPartition, int]:
    fields = [field.strip() for field in row]
    if len(fields) == 3 and len(groups) > 1:
        raise typer.BadParameter(
            f"{where} names no group, and several are to be reset; write group,topic,partition,"
            "offset",
            param_hint=OPTION,
        )
    if len(fields) == 3:
        fields = [groups[0], *fields]
    try:
        group, topic, partition, offset = fields
        place = TopicPartition(topic, int(partition))
        wanted = int(offset)
    except ValueError:
        wanted, place = -1, TopicPartition("", -1)
    if not place.topic or place.partition < 0 or wanted < 0:
        raise typer.BadParameter(
            f"{where} is {','.join(row)!r}, not topic,partition,offset", param_hint=OPTION
        )
    return group, place, wanted


def write_plan(rows: Iterable[tuple[str, TopicPartition, int]], *, with_group: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, place, offset in rows:
        writer.writerow([*([group] if with_group else []), *place, offset])
    return text.getvalue()
