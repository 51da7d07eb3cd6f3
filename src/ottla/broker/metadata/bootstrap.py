"""`bootstrap.checkpoint`: the records that formatting a log dir writes for the first leader.

They are the feature levels of the new cluster. The file has the format of a snapshot.
"""

from __future__ import annotations

from ottla.broker.metadata.batches import decode_batch
from ottla.broker.metadata.features import check_supported
from ottla.broker.metadata.formatting import FEATURES_NAME
from ottla.broker.metadata.replay import MetadataLogDamaged
from ottla.broker.quorum import snapshot_files
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message
from ottla.runtime.disk import Disk


def read_bootstrap(disk: Disk, log_dir: str) -> list[Message]:
    """Return the records; none if there is no file, as when the first start formats the log dir."""
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
    check_supported(
        {each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)},
        path,
        "Remove the folder and format it again (kafka-storage.sh or `ottla storage`): format ...",
    )
    return records
