"""`meta.properties`: to which node of which cluster a data folder belongs, and its own id."""

from __future__ import annotations

import os.path
from typing import NamedTuple

from ottla.config.errors import ConfigError
from ottla.config.properties import parse_properties
from ottla.protocol.uuids import from_text, to_text
from ottla.runtime.disk import Disk
from ottla.storage.errors import CorruptFile

FILE_NAME = "meta.properties"
VERSION = 1


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: bytes | None
    """Absent in folders of brokers before Kafka 3.7."""


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """`None` where there is no such file: the folder is new. `CorruptFile` if it is not sound."""
    path = os.path.join(directory, FILE_NAME)
    try:
        text = disk.read_bytes(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    try:
        fields = parse_properties(text, path)
        if int(fields["version"]) != VERSION:
            raise CorruptFile(
                path, f"version {fields['version']} is not {VERSION}: not a folder of a KRaft node"
            )
        directory_id = fields.get("directory.id")
        return MetaProperties(
            fields["cluster.id"],
            int(fields["node.id"]),
            None if directory_id is None else from_text(directory_id),
        )
    except (KeyError, ValueError, ConfigError) as error:
        if isinstance(error, CorruptFile):
            raise
        raise CorruptFile(path, f"cannot be read: {error!r}") from None


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    lines = ["#", f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={to_text(properties.directory_id)}")
    lines += [f"node.id={properties.node_id}", f"version={VERSION}", ""]
    disk.replace_bytes(os.path.join(directory, FILE_NAME), "\n".join(lines).encode())
