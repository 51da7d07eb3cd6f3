"""`.kafka_cleanshutdown`: marks a log dir in which everything was closed properly.

It is removed before anything is opened, so that a crash while loading counts as a crash.
"""

from __future__ import annotations

import json
import os.path

from ottla.runtime.disk import Disk

FILE_NAME = ".kafka_cleanshutdown"
VERSION = 0


def take_marker(disk: Disk, directory: str) -> bool:
    """Remove the marker; True if it was there, so the last shutdown was clean."""
    path = os.path.join(directory, FILE_NAME)
    if not disk.exists(path):
        return False
    disk.remove(path)
    disk.sync_dir(directory)
    return True


def marked_epoch(disk: Disk, directory: str) -> int:
    """Return the broker epoch in the marker; -1 if there is none, or it cannot be read."""
    try:
        content = json.loads(disk.read_bytes(os.path.join(directory, FILE_NAME)))
        return int(content["brokerEpoch"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1


def write_marker(disk: Disk, directory: str, broker_epoch: int = -1) -> None:
    content = {"version": VERSION, "brokerEpoch": broker_epoch}
    text = json.dumps(content, separators=(",", ":"))
    disk.replace_bytes(os.path.join(directory, FILE_NAME), text.encode())
