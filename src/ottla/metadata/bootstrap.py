"""`bootstrap.checkpoint`: the records that formatting a folder leaves for the first leader.

They are the levels of the features that the new cluster is to begin with. The file has the form of
a snapshot.
"""

from __future__ import annotations

from ottla.metadata.batches import decode_batch
from ottla.metadata.formatting import FEATURES_NAME
from ottla.metadata.replay import MetadataLogDamaged
from ottla.protocol.schema import Message
from ottla.quorum import snapshot_files
from ottla.runtime.disk import Disk


def read_bootstrap(disk: Disk, log_dir: str) -> list[Message]:
    """Nothing where there is no such file: folders are formatted by the first start, too."""
    path = f"{log_dir}/{FEATURES_NAME}"
    if not disk.exists(path):
        return []
    records: list[Message] = []
    try:
        for header, batch in snapshot_files.read_batches(disk, path):
            if not header.is_control:
                records += decode_batch(batch)
    except (snapshot_files.SnapshotDamaged, ValueError) as error:
        raise MetadataLogDamaged(f"{path} is damaged: {error}") from error
    return records
