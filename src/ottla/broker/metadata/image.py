"""The metadata of the whole cluster at one offset of its log: immutable, shared, cheap to read.

An image is never changed. `apply` makes the next one, copying only the maps that change, so that a
reader may keep an image for as long as it likes and always sees one consistent state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.metadata.resources import ConfigResource, ResourceType
from ottla.broker.metadata.security_image import (
    DelegationToken,
    QuotaEntity,
    Quotas,
    ScramCredential,
    ScramUser,
)
from ottla.protocol.uuids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY

if TYPE_CHECKING:
    from ottla.protocol.schema import Message
    from ottla.security.acls import AccessControlEntry

NO_LEADER = -1

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_GROUPS_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})
METADATA_TOPIC = "__cluster_metadata"

NO_CONFIG: Mapping[str, str] = {}


class PartitionImage(NamedTuple):
    """The replicas, ISR and leader of a partition."""

    index: int  # type: ignore[assignment]  # shadows a method of tuples that makes no sense here
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    """The directory id of each replica, in the order of `replicas`."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    """1 after an unclean election, until the leader has reported that it recovered."""

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> bytes:
        """Return the directory of this broker's replica; "unassigned" if it is not recorded."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage]
    """By partition number, in ascending order."""
    derived: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """A cache for values that readers compute from this topic; it lives as long as the topic
    image."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Endpoint(NamedTuple):
    """An advertised address of a broker, under the name of its listener."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(NamedTuple):
    id: int
    epoch: int
    """The offset of the registration record: a stale process cannot pretend to be the new one."""
    incarnation_id: bytes
    endpoints: Mapping[str, Endpoint]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    """The ids of the working log dirs; empty if the broker did not report them."""
    cordoned_directories: tuple[bytes, ...] = ()
    features: Mapping[str, tuple[int, int]] = {}

    @property
    def is_placeable(self) -> bool:
        """True if it may get replicas of new partitions: it is not shutting down, and a log dir
        accepts them."""
        folders = self.directories
        full = bool(folders) and all(folder in self.cordoned_directories for folder in folders)
        return not full and (self.fenced or not self.in_controlled_shutdown)

    @property
    def is_active(self) -> bool:
        """True if it may lead partitions and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online(self, directory: bytes) -> bool:
        """True if a replica in this directory is usable, as far as is known."""
        if directory in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY) or not self.directories:
            return True
        return directory in self.directories


class ControllerImage(NamedTuple):
    """A node that may be elected to lead the metadata log."""

    id: int
    incarnation_id: bytes
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]] = {}
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class MetadataImage:
    offset: int = -1
    """The last offset of the metadata log that is part of this image."""
    epoch: int = -1
    """The leader epoch of that offset."""
    cluster_id: str = ""
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)
    names_unified: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Topic names with '.' or '_', by their form with only '_'. Metric names cannot distinguish
    them, so no two such topics may exist, and a new name must be checked without a scan."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    """The first producer id that has not been allocated yet."""
    acls: Mapping[bytes, AccessControlEntry] = field(default_factory=dict)
    """By the id of the entry."""
    acl_ids: Mapping[AccessControlEntry, bytes] = field(default_factory=dict, compare=False)
    """The same the other way round: what exists already is found without a scan."""
    scram_credentials: Mapping[ScramUser, ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """By token id."""
    client_quotas: Mapping[QuotaEntity, Quotas] = field(default_factory=dict)
    zk_migration_state: int = 0
    """Read and written as it is: Kafka's controllers write it into every new cluster. 0 is none."""
    derived: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """A cache for values that readers compute from this image; it lives as long as the image."""

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.get(name)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the overrides set on this topic; other settings follow the broker."""
        return self.configs.get((ResourceType.TOPIC, name), NO_CONFIG)

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.configs.get(resource, NO_CONFIG)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def apply(self, records: Iterable[Message], offset: int, epoch: int) -> MetadataImage:
        """Return the image after `records`, of which the last is at `offset`."""
        from ottla.broker.metadata.changes import apply_records

        return apply_records(self, records, offset, epoch)[0]


EMPTY_IMAGE = MetadataImage()
