"""`partition.metadata`: the id of the topic that a folder belongs to.

It tells the data of a topic from that of an earlier topic of the same name. Two lines of text.
"""

from __future__ import annotations

from ottla.protocol.uuids import ZERO_UUID, from_text, to_text
from ottla.runtime.disk import Disk
from ottla.storage.errors import CorruptFile

FILE_NAME = "partition.metadata"
VERSION = 0


def read_topic_id(disk: Disk, path: str) -> bytes:
    """`FileNotFoundError` or `CorruptFile` where there is no answer."""
    fields: dict[str, str] = {}
    for line in disk.read_bytes(path).decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    try:
        if int(fields["version"]) != VERSION:
            raise CorruptFile(path, f"version {fields['version']} is unknown: expected {VERSION}")
        topic_id = from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        if isinstance(error, CorruptFile):
            raise
        raise CorruptFile(path, f"not a partition's metadata: {error!r}") from None
    if topic_id == ZERO_UUID:
        raise CorruptFile(path, "the topic id is zero")
    return topic_id


def write_topic_id(disk: Disk, path: str, topic_id: bytes) -> None:
    """Not synced: the first flush of the log does that, before any of its data counts as safe."""
    file = disk.open(path, create=True)
    try:
        text = f"version: {VERSION}\ntopic_id: {to_text(topic_id)}".encode()
        file.truncate(0)
        file.write_at(0, [text])
    finally:
        file.close()
