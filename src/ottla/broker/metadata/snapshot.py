"""The image as records, the content of a snapshot: replaying them gives the image again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ottla.broker.metadata.image import (
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.broker.metadata.records import METADATA_VERSION_FEATURE, record_class
from ottla.broker.metadata.security_image import QuotaEntity, Quotas
from ottla.protocol.schema import Message


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Yield the records. `metadata.version` comes first: it determines how to read the rest."""
    first = METADATA_VERSION_FEATURE
    for name in sorted(image.features, key=lambda name: (name != first, name)):
        yield _make("FeatureLevelRecord", name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics.values():
        yield from _topic(topic)
    for (kind, resource), config in image.configs.items():
        for key, value in config.items():
            yield _make(
                "ConfigRecord",
                resource_type=int(kind),
                resource_name=resource,
                name=key,
                value=value,
            )
    if image.next_producer_id > 0:
        yield _make(
            "ProducerIdsRecord",
            broker_id=-1,
            broker_epoch=-1,
            next_producer_id=image.next_producer_id,
        )
    yield from _security_records(image)
    if image.zk_migration_state:
        yield _make("ZkMigrationStateRecord", zk_migration_state=image.zk_migration_state)


def _security_records(image: MetadataImage) -> Iterator[Message]:
    for acl_id, acl in image.acls.items():
        yield _make("AccessControlEntryRecord", id=acl_id, **acl._asdict())
    for (user, mechanism), credential in image.scram_credentials.items():
        yield _make(
            "UserScramCredentialRecord", name=user, mechanism=mechanism, **credential._asdict()
        )
    for token_id, token in image.delegation_tokens.items():
        yield _make(
            "DelegationTokenRecord",
            token_id=token_id,
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp_ms,
            max_timestamp=token.max_timestamp_ms,
            expiration_timestamp=token.expiration_timestamp_ms,
        )
    for entity, quotas in image.client_quotas.items():
        yield from _quota_records(entity, quotas)


def _quota_records(entity: QuotaEntity, quotas: Quotas) -> Iterator[Message]:
    from ottla.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData

    for key, bound in quotas.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        yield ClientQuotaRecord(entity=parts, key=key, value=bound)


def _make(kind: str, /, **fields: Any) -> Message:
    return record_class(kind)(**fields)


def _broker(broker: BrokerImage) -> Message:
    from ottla.protocol.metadata_records import register_broker_record as module

    return module.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_endpoints(module.BrokerEndpoint, broker),
        features=_features(module.BrokerFeature, broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def _controller(controller: ControllerImage) -> Message:
    from ottla.protocol.metadata_records import register_controller_record as module

    return module.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_endpoints(module.ControllerEndpoint, controller),
        features=_features(module.ControllerFeature, controller.features),
    )


def _endpoints(kind: Any, node: BrokerImage | ControllerImage) -> list[Any]:
    return [
        kind(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
        for e in node.endpoints.values()
    ]


def _features(kind: Any, features: Mapping[str, tuple[int, int]]) -> list[Any]:
    return [
        kind(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    ]


def _topic(topic: TopicImage) -> Iterator[Message]:
    yield _make("TopicRecord", name=topic.name, topic_id=topic.id)
    for partition in topic.partitions.values():
        yield _partition(topic.id, partition)


def _partition(topic_id: bytes, partition: PartitionImage) -> Message:
    return _make(
        "PartitionRecord",
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )
