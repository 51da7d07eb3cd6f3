"""The files that `storage format` writes to a log dir for the first start of a cluster, as Kafka
does.

__cluster_metadata-0/00000000000000000000-0000000000.checkpoint   the first voters, if they may
                                                                  change while the cluster runs
bootstrap.checkpoint                                              the first feature levels and
                                                                  users
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.metadata.image import METADATA_TOPIC
from ottla.broker.metadata.records import METADATA_VERSION_FEATURE, encode_record
from ottla.broker.quorum import snapshot_files
from ottla.broker.raft.ids import Endpoint, ReplicaKey
from ottla.broker.raft.log_view import BOOTSTRAP_SNAPSHOT
from ottla.broker.raft.voters.voters import VersionRange, Voter, VoterSet
from ottla.protocol.control_records.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from ottla.runtime.disk import Disk

FEATURES_NAME: Final = "bootstrap.checkpoint"
KRAFT_VERSION_FEATURE: Final = "kraft.version"
KRAFT_VERSIONS: Final = VersionRange(0, 1)


class FirstVoter(NamedTuple):
    id: int
    directory_id: bytes
    host: str
    port: int


def write_first_voters(
    disk: Disk, log_dir: str, voters: Iterable[FirstVoter], *, listener: str, now_ms: int
) -> None:
    """`log_dir` is the log dir of the metadata log; all controllers get the same voters."""
    voter_set = VoterSet(
        Voter(
            ReplicaKey.of(one.id, one.directory_id),
            (Endpoint(listener, one.host, one.port),),
            KRAFT_VERSIONS,
        )
        for one in voters
    )
    control = [KRaftVersionRecord(k_raft_version=1), voter_set.to_record()]
    content = snapshot_files.snapshot_batches((), control, epoch=0, timestamp_ms=now_ms)
    directory = f"{log_dir}/{METADATA_TOPIC}-0"
    disk.make_dirs(directory)
    snapshot_files.write(disk, directory, snapshot_files.name_of(BOOTSTRAP_SNAPSHOT), content)


def write_first_features(
    disk: Disk,
    log_dir: str,
    levels: Mapping[str, int],
    users: Sequence[UserScramCredentialRecord] = (),
    *,
    now_ms: int,
) -> None:
    """Write the feature levels, and users that can sign in from the beginning. `metadata.version`
    comes first: it determines how to read the rest."""
    names = sorted(levels, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
    records = [
        encode_record(FeatureLevelRecord(name=name, feature_level=levels[name])) for name in names
    ]
    records += map(encode_record, users)
    content = snapshot_files.snapshot_batches([records], (), epoch=0, timestamp_ms=now_ms)
    snapshot_files.write(disk, log_dir, FEATURES_NAME, content)
