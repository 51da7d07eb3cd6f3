"""`partition.metadata`: the id of the topic that a folder belongs to.

It distinguishes the data of a topic from that of an earlier topic of the same name. Two lines of
text.
"""

from __future__ import annotations

from ottla.broker.storage.errors import CorruptFile
from ottla.protocol.uuids import ZERO_UUID, from_text, to_text
from ottla.runtime.disk import Disk

FILE_NAME = "partition.metadata"
VERSION = 0


def read_topic_id(disk: Disk, path: str) -> bytes:
    """Read the id; raises `FileNotFoundError` or `CorruptFile`."""
    fields: dict[str, tuple[int, str]] = {}
    lines = disk.read_bytes(path).decode(errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        name, _, value = line.partition(":")
        fields[name.strip()] = (number, value.strip())
    number, version = _required(fields, "version", path)
    if version != str(VERSION):
        raise CorruptFile(
            path, f"line {number}: version {version!r} is unknown: expected {VERSION}"
        )
    number, text = _required(fields, "topic_id", path)
    try:
        topic_id = from_text(text)
    except ValueError as error:
        raise CorruptFile(path, f"line {number}: the topic id is {error}") from None
    if topic_id == ZERO_UUID:
        raise CorruptFile(path, f"line {number}: the topic id is zero")
    return topic_id


def _required(fields: dict[str, tuple[int, str]], name: str, path: str) -> tuple[int, str]:
    if name not in fields:
        raise CorruptFile(path, f"damaged: it has no line `{name}: ...`")
    return fields[name]


def write_topic_id(disk: Disk, path: str, topic_id: bytes) -> None:
    """Write the id without a sync: the first flush of the log does that, before any data counts as
    safe."""
    file = disk.open(path, create=True)
    try:
        text = f"version: {VERSION}\ntopic_id: {to_text(topic_id)}".encode()
        file.truncate(0)
        file.write_at(0, [text])
    finally:
        file.close()
