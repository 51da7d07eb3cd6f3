"""Dumps the small files beside the segments: snapshots, checkpoints, identities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ottla.broker.storage.dirs.text_checkpoint import read_checkpoint
from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.producers.snapshot import decode_snapshot
from ottla.cli.logs.dump.items import Item, problem
from ottla.runtime.os_disk import OsDisk


def dump_snapshot(path: Path) -> Iterator[Item]:
    """Dump the producers known at the offset in the file's name."""
    try:
        entries = decode_snapshot(path.name, path.read_bytes())
    except CorruptFile as error:
        yield problem(error.reason)
        return
    for entry in entries:
        yield {"type": "producer", **entry._asdict()}


def dump_leader_epochs(path: Path) -> Iterator[Item]:
    try:
        entries = _entries(path, columns=2)
    except CorruptFile as error:
        yield problem(error.reason)
        return
    previous = (-1, -1)
    for epoch, start_offset in entries:
        found = (int(epoch), int(start_offset))
        yield {"type": "epoch", "epoch": found[0], "start_offset": found[1]}
        if found[0] <= previous[0] or found[1] < previous[1]:
            yield problem(f"epoch {found[0]} at offset {found[1]} does not come after {previous}")
        previous = found


def dump_offset_checkpoint(path: Path) -> Iterator[Item]:
    try:
        entries = _entries(path, columns=3)
    except CorruptFile as error:
        yield problem(error.reason)
        return
    for topic, partition, offset in entries:
        yield {
            "type": "offset",
            "topic": topic,
            "partition": int(partition),
            "offset": int(offset),
        }


def _entries(path: Path, *, columns: int) -> list[list[str]]:
    if path.stat().st_size == 0:
        return []  # created by Kafka before there is anything to write
    return read_checkpoint(OsDisk(), str(path), columns=columns)


def dump_properties(path: Path) -> Iterator[Item]:
    """Dump the names and values in `meta.properties` or `partition.metadata`."""
    for line in path.read_text(errors="replace").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        separator = "=" if "=" in text else ":"
        name, _, value = text.partition(separator)
        yield {"type": "property", "name": name.strip(), "value": value.strip()}


def dump_quorum_state(path: Path) -> Iterator[Item]:
    try:
        yield {"type": "quorum_state", **json.loads(path.read_bytes())}
    except (ValueError, TypeError) as error:
        yield problem(f"not JSON: {error}")
