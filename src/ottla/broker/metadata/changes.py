"""Applies records to an image: the meaning of each kind of metadata record.

One `ImageChange` may take the records of many batches: replaying a whole log copies each map once,
not once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from ottla.broker.metadata.delta import MetadataDelta, TopicChange
from ottla.broker.metadata.image import (
    BrokerImage,
    ControllerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.broker.metadata.resources import ConfigResource, ResourceType
from ottla.broker.metadata.security_image import (
    DelegationToken,
    QuotaEntity,
    ScramCredential,
    ScramUser,
    quota_entity,
)
from ottla.protocol.schema import Message
from ottla.protocol.uuids import MIGRATING_DIRECTORY
from ottla.security.acls import AccessControlEntry

NO_LEADER_CHANGE = -2


class MetadataInconsistent(ValueError):
    """A record does not fit the image before it: no controller would have written it."""


def apply_records(
    image: MetadataImage, records: Iterable[Message], offset: int, epoch: int
) -> tuple[MetadataImage, MetadataDelta]:
    """Return the image after `records`, of which the last is at `offset`, and what they changed."""
    change = ImageChange(image)
    change.apply(records)
    return change.finish(offset, epoch)


class ImageChange:
    """An image that is being changed. Maps of the base image are copied before the first change.

    It is one thing: a method per kind of record, each a few lines, which together are the meaning
    of the metadata log.
    """

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._by_name = cast("dict[str, TopicImage]", base.topics)
        self._by_id = cast("dict[bytes, TopicImage]", base.topics_by_id)
        self._unified = cast("dict[str, frozenset[str]]", base.names_unified)
        self._configs = cast("dict[ConfigResource, dict[str, str]]", base.configs)
        self._brokers = cast("dict[int, BrokerImage]", base.brokers)
        self._controllers = cast("dict[int, ControllerImage]", base.controllers)
        self._features = cast("dict[str, int]", base.features)
        self._next_producer_id = base.next_producer_id
        self._acls = cast("dict[bytes, AccessControlEntry]", base.acls)
        self._acl_ids = cast("dict[AccessControlEntry, bytes]", base.acl_ids)
        self._scram = cast("dict[ScramUser, ScramCredential]", base.scram_credentials)
        self._tokens = cast("dict[str, DelegationToken]", base.delegation_tokens)
        self._quotas = cast("dict[QuotaEntity, dict[str, float]]", base.client_quotas)
        self._zk_migration_state = base.zk_migration_state
        self._own_partitions: dict[bytes, dict[int, PartitionImage]] = {}
        self._own_configs: dict[ConfigResource, dict[str, str]] = {}
        self._touched_topics: dict[bytes, None] = {}
        self._delta = MetadataDelta()

    def apply(self, records: Iterable[Message]) -> None:
        for record in records:
            self.apply_one(record)

    def apply_one(self, record: Message) -> None:
        meaning = _MEANINGS.get(record.__class__.__name__)
        if meaning is not None:
            meaning(self, record)

    def finish(self, offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        for partitions in self._own_partitions.values():
            _sort(partitions)
        self._compare_topics()
        image = MetadataImage(
            offset=offset,
            epoch=epoch,
            cluster_id=self._base.cluster_id,
            brokers=self._brokers,
            controllers=self._controllers,
            topics=self._by_name,
            topics_by_id=self._by_id,
            names_unified=self._unified,
            configs=self._configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            acls=self._acls,
            acl_ids=self._acl_ids,
            scram_credentials=self._scram,
            delegation_tokens=self._tokens,
            client_quotas=self._quotas,
            zk_migration_state=self._zk_migration_state,
        )
        return image, self._delta

    def _compare_topics(self) -> None:
        for topic_id in self._touched_topics:
            before = self._base.topics_by_id.get(topic_id)
            after = self._by_id.get(topic_id)
            if before is None and after is not None:
                self._delta.created[topic_id] = after
            elif before is not None and after is None:
                self._delta.deleted[topic_id] = before
            elif before is not None and after is not None:
                old = before.partitions
                differing = tuple(i for i, p in after.partitions.items() if old.get(i) != p)
                if differing:
                    self._delta.changed[topic_id] = TopicChange(before, after, differing)

    # Topics

    def _topic_maps(self) -> tuple[dict[str, TopicImage], dict[bytes, TopicImage]]:
        if self._by_id is self._base.topics_by_id:
            self._by_name = dict(self._base.topics)
            self._by_id = dict(self._base.topics_by_id)
            self._unified = dict(self._base.names_unified)
        return self._by_name, self._by_id

    def _put_topic(self, topic: TopicImage) -> None:
        by_name, by_id = self._topic_maps()
        by_name[topic.name] = topic
        by_id[topic.id] = topic
        self._touched_topics[topic.id] = None

    def _topic_created(self, record: Any) -> None:
        existing = self._by_name.get(record.name)
        if existing is not None:
            raise MetadataInconsistent(f"topic {record.name!r} is created while it exists")
        partitions: dict[int, PartitionImage] = {}
        self._own_partitions[record.topic_id] = partitions
        self._put_topic(TopicImage(record.name, record.topic_id, partitions))
        unified = unified_name(record.name)
        if unified is not None:
            names = self._unified.get(unified, frozenset()) | {record.name}
            self._unified[unified] = names

    def _topic_removed(self, record: Any) -> None:
        topic = self._known_topic(record.topic_id)
        by_name, by_id = self._topic_maps()
        del by_name[topic.name], by_id[topic.id]
        self._own_partitions.pop(topic.id, None)
        self._touched_topics[topic.id] = None
        unified = unified_name(topic.name)
        if unified is not None:
            rest = self._unified[unified] - {topic.name}
            if rest:
                self._unified[unified] = rest
            else:
                del self._unified[unified]
        resource = (int(ResourceType.TOPIC), topic.name)
        if resource in self._configs:
            del self._config_map()[resource]
            self._own_configs.pop(resource, None)
            self._delta.configs.add(resource)

    def _known_topic(self, topic_id: bytes) -> TopicImage:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise MetadataInconsistent(f"a record is about topic id {topic_id.hex()}, unknown here")
        return topic

    def _partitions(self, topic_id: bytes) -> dict[int, PartitionImage]:
        own = self._own_partitions.get(topic_id)
        if own is None:
            topic = self._known_topic(topic_id)
            own = self._own_partitions[topic_id] = dict(topic.partitions)
            self._put_topic(TopicImage(topic.name, topic.id, own))
        return own

    def _partition_created(self, record: Any) -> None:
        replicas = tuple(record.replicas)
        self._partitions(record.topic_id)[record.partition_id] = PartitionImage(
            record.partition_id,
            record.leader,
            record.leader_epoch,
            replicas,
            tuple(record.isr),
            record.partition_epoch,
            _directories(tuple(record.directories), len(replicas)),
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            record.leader_recovery_state,
        )

    def _partition_changed(self, record: Any) -> None:
        partitions = self._partitions(record.topic_id)
        before = partitions.get(record.partition_id)
        if before is None:
            raise MetadataInconsistent(
                f"a record changes partition {record.partition_id} of topic id "
                f"{record.topic_id.hex()}, which does not exist"
            )
        partitions[record.partition_id] = merged(before, record)

    def _elr_cleared(self, record: Any) -> None:
        """Clear the ELR of one topic, or of all if none is named. Kafka writes this record when
        `min.insync.replicas` changes."""
        from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord

        named = [self._by_name[record.topic_name]] if record.topic_name else self._by_name.values()
        for topic in list(named):
            for partition in list(topic.partitions.values()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    cleared = PartitionChangeRecord(
                        partition_id=partition.index,
                        topic_id=topic.id,
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                    )
                    self._partition_changed(cleared)

    # Configs

    def _config_map(self) -> dict[ConfigResource, dict[str, str]]:
        if self._configs is self._base.configs:
            self._configs = dict(self._base.configs)
        return self._configs

    def _config_set(self, record: Any) -> None:
        resource = (record.resource_type, record.resource_name)
        own = self._own_configs.get(resource)
        if own is None:
            own = self._own_configs[resource] = dict(self._configs.get(resource, {}))
        if record.value is None:
            own.pop(record.name, None)
        else:
            own[record.name] = record.value
        if own:
            self._config_map()[resource] = own
        else:
            self._config_map().pop(resource, None)
        self._delta.configs.add(resource)

    # Brokers

    def _put_broker(self, broker: BrokerImage) -> None:
        if self._brokers is self._base.brokers:
            self._brokers = dict(self._base.brokers)
        self._brokers[broker.id] = broker
        self._delta.brokers.add(broker.id)

    def _broker_registered(self, record: Any) -> None:
        self._put_broker(
            BrokerImage(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                cordoned_directories=tuple(record.cordoned_log_dirs or ()),
                features=_features(record),
            )
        )

    def _known_broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise MetadataInconsistent(f"no broker {broker_id} with epoch {epoch} is registered")
        return broker

    def _broker_changed(self, record: Any) -> None:
        broker = self._known_broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
        self._put_broker(broker)

    def _broker_fenced(self, record: Any) -> None:
        self._put_broker(self._known_broker(record.id, record.epoch)._replace(fenced=True))

    def _broker_unfenced(self, record: Any) -> None:
        self._put_broker(self._known_broker(record.id, record.epoch)._replace(fenced=False))

    def _broker_unregistered(self, record: Any) -> None:
        broker = self._known_broker(record.broker_id, record.broker_epoch)
        self._put_broker(broker)
        del self._brokers[broker.id]

    def _controller_registered(self, record: Any) -> None:
        if self._controllers is self._base.controllers:
            self._controllers = dict(self._base.controllers)
        self._controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record),
            _features(record),
            record.zk_migration_ready,
        )
        self._delta.controllers.add(record.controller_id)

    # Security and quotas

    def _acl_maps(
        self, acl_id: bytes
    ) -> tuple[dict[bytes, AccessControlEntry], dict[AccessControlEntry, bytes]]:
        if self._acls is self._base.acls:
            self._acls = dict(self._base.acls)
            self._acl_ids = dict(self._base.acl_ids)
        self._delta.security = True
        self._delta.acls.add(acl_id)
        return self._acls, self._acl_ids

    def _acl_added(self, record: Any) -> None:
        acls, ids = self._acl_maps(record.id)
        acl = acls[record.id] = AccessControlEntry(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        ids[acl] = record.id

    def _acl_removed(self, record: Any) -> None:
        acls, ids = self._acl_maps(record.id)
        acl = acls.pop(record.id, None)
        if acl is not None and ids.get(acl) == record.id:
            del ids[acl]

    def _scram_map(self) -> dict[ScramUser, ScramCredential]:
        if self._scram is self._base.scram_credentials:
            self._scram = dict(self._base.scram_credentials)
        self._delta.security = True
        return self._scram

    def _scram_credential_set(self, record: Any) -> None:
        self._scram_map()[record.name, record.mechanism] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def _scram_credential_removed(self, record: Any) -> None:
        self._scram_map().pop((record.name, record.mechanism), None)

    def _token_map(self, token_id: str) -> dict[str, DelegationToken]:
        if self._tokens is self._base.delegation_tokens:
            self._tokens = dict(self._base.delegation_tokens)
        self._delta.security = True
        self._delta.tokens.add(token_id)
        return self._tokens

    def _token_issued(self, record: Any) -> None:
        self._token_map(record.token_id)[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def _token_removed(self, record: Any) -> None:
        self._token_map(record.token_id).pop(record.token_id, None)

    def _quota_set(self, record: Any) -> None:
        if self._quotas is self._base.client_quotas:
            self._quotas = dict(self._base.client_quotas)
        self._delta.security = True
        entity = quota_entity(record.entity)
        quotas = dict(self._quotas.get(entity, {}))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self._quotas[entity] = quotas
        else:
            self._quotas.pop(entity, None)

    # Other records

    def _zk_migration_state_set(self, record: Any) -> None:
        self._zk_migration_state = record.zk_migration_state

    def _feature_set(self, record: Any) -> None:
        if self._features is self._base.features:
            self._features = dict(self._base.features)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level
        self._delta.features.add(record.name)

    def _producer_ids_given(self, record: Any) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise MetadataInconsistent(
                f"producer ids go back from {self._next_producer_id} to {record.next_producer_id}"
            )
        self._next_producer_id = record.next_producer_id


def unified_name(topic: str) -> str | None:
    """Return the name as in metrics; None if no other name can have the same form."""
    return topic.replace(".", "_") if "." in topic or "_" in topic else None


def _sort(partitions: dict[int, PartitionImage]) -> None:
    """Sort the partitions in place: other controllers may write them in another order."""
    if any(position != index for position, index in enumerate(partitions)):
        ordered = sorted(partitions.items())
        partitions.clear()
        partitions.update(ordered)


def merged(before: PartitionImage, record: Any) -> PartitionImage:
    """Return a partition after a change record: absent fields stay; naming a leader starts a new
    epoch."""
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    directories = before.directories if record.directories is None else tuple(record.directories)
    led_anew = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    return PartitionImage(
        before.index,
        record.leader if led_anew else before.leader,
        before.leader_epoch + led_anew,
        replicas,
        _either(record.isr, before.isr),
        before.partition_epoch + 1,
        _directories(directories, len(replicas)),
        _either(record.adding_replicas, before.adding_replicas),
        _either(record.removing_replicas, before.removing_replicas),
        _either(record.eligible_leader_replicas, before.eligible_leader_replicas),
        _either(record.last_known_elr, before.last_known_elr),
        before.leader_recovery_state if recovery < 0 else recovery,
    )


def _directories(given: tuple[bytes, ...], replicas: int) -> tuple[bytes, ...]:
    """Return the directory of each replica. Older records have none, and a list of another length
    does not fit."""
    return given if len(given) == replicas else (MIGRATING_DIRECTORY,) * replicas


def _endpoints(record: Any) -> dict[str, Endpoint]:
    return {
        e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points
    }


def _features(record: Any) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features}


def _either(given: list[int] | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return otherwise if given is None else tuple(given)


_MEANINGS: dict[str, Callable[[ImageChange, Any], None]] = {
    "TopicRecord": ImageChange._topic_created,
    "RemoveTopicRecord": ImageChange._topic_removed,
    "PartitionRecord": ImageChange._partition_created,
    "PartitionChangeRecord": ImageChange._partition_changed,
    "ClearElrRecord": ImageChange._elr_cleared,
    "ConfigRecord": ImageChange._config_set,
    "RegisterBrokerRecord": ImageChange._broker_registered,
    "BrokerRegistrationChangeRecord": ImageChange._broker_changed,
    "FenceBrokerRecord": ImageChange._broker_fenced,
    "UnfenceBrokerRecord": ImageChange._broker_unfenced,
    "UnregisterBrokerRecord": ImageChange._broker_unregistered,
    "RegisterControllerRecord": ImageChange._controller_registered,
    "FeatureLevelRecord": ImageChange._feature_set,
    "ProducerIdsRecord": ImageChange._producer_ids_given,
    "AccessControlEntryRecord": ImageChange._acl_added,
    "RemoveAccessControlEntryRecord": ImageChange._acl_removed,
    "UserScramCredentialRecord": ImageChange._scram_credential_set,
    "RemoveUserScramCredentialRecord": ImageChange._scram_credential_removed,
    "DelegationTokenRecord": ImageChange._token_issued,
    "RemoveDelegationTokenRecord": ImageChange._token_removed,
    "ClientQuotaRecord": ImageChange._quota_set,
    "ZkMigrationStateRecord": ImageChange._zk_migration_state_set,
}
"""By the name of the record, so that a record module is imported only when such a record occurs."""
