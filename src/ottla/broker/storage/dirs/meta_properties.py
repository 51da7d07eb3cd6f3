"""`meta.properties`: the cluster and node that a log dir belongs to, and its own id."""

from __future__ import annotations

import os.path
from typing import NamedTuple

from ottla.broker.storage.errors import CorruptFile
from ottla.config.properties import Properties, PropertiesError, parse_properties
from ottla.protocol.uuids import from_text, to_text
from ottla.runtime.disk import Disk

FILE_NAME = "meta.properties"
VERSION = 1


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: bytes | None
    """Missing in log dirs of brokers before Kafka 3.7."""


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Read the file; `None` if there is none, so the log dir is new. Raises `CorruptFile` if it is
    damaged."""
    path = os.path.join(directory, FILE_NAME)
    try:
        text = disk.read_bytes(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    try:
        return _understood(path, parse_properties(text, path))
    except PropertiesError as error:
        raise CorruptFile(path, str(error).replace(f"{path}:", "line ", 1)) from None


def _understood(path: str, fields: Properties) -> MetaProperties:
    version = _required(fields, "version", path).strip()
    if version != str(VERSION):
        raise CorruptFile(path, f"version {version} is not {VERSION}: not a folder of a KRaft node")
    cluster_id = _required(fields, "cluster.id", path)
    node_id = _required(fields, "node.id", path).strip()
    if not node_id.isdecimal():
        raise CorruptFile(path, f"node.id {node_id!r} is no number")
    directory_id = fields.get("directory.id")
    try:
        return MetaProperties(
            cluster_id, int(node_id), None if directory_id is None else from_text(directory_id)
        )
    except ValueError as error:
        raise CorruptFile(path, f"directory.id is {error}") from None


def _required(fields: Properties, name: str, path: str) -> str:
    if name not in fields:
        raise CorruptFile(path, f"damaged: it has no line `{name}=...`")
    return fields[name]


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    # A cluster id may be any text, and a backslash is special in properties files.
    cluster_id = properties.cluster_id.replace("\\", "\\\\")
    lines = ["#", f"cluster.id={cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={to_text(properties.directory_id)}")
    lines += [f"node.id={properties.node_id}", f"version={VERSION}", ""]
    disk.replace_bytes(os.path.join(directory, FILE_NAME), "\n".join(lines).encode())
