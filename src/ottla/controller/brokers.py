"""Brokers come, tell of their folders, and partitions follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.controller.elections import clean_leader, lead_record
from ottla.metadata.decision import Decision
from ottla.metadata.features import FEATURES
from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage
from ottla.protocol.metadata_records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from ottla.protocol.schema import Message

FENCE, UNFENCE = 1, -1


class Registration(NamedTuple):
    """What a broker tells about itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    """Random for each start of the process: tells a restart from a repeated request."""
    endpoints: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[bytes]
    """The ids of the log folders that are in working order."""


def register_broker(
    image: MetadataImage, registration: Registration, *, clean: bool
) -> Decision[int]:
    """Take a broker in, ready to serve; the response is its epoch.

    It is registered fenced and unfenced by a second record, as if its first heartbeat had come at
    once. After a crash (`clean` is false) the end of its logs may be lost, so every partition that
    it leads gets a new leader epoch, by which consumers notice offsets that were given out twice.
    """
    records: list[Message] = [
        FeatureLevelRecord(name=feature.name, feature_level=feature.level)
        for feature in FEATURES
        if feature.name not in image.features
    ]
    epoch = image.offset + 1 + len(records)
    records += [
        _register_record(registration, epoch),
        BrokerRegistrationChangeRecord(
            broker_id=registration.broker_id, broker_epoch=epoch, fenced=UNFENCE
        ),
    ]
    registered = BrokerImage(
        id=registration.broker_id,
        epoch=epoch,
        incarnation_id=registration.incarnation_id,
        endpoints={endpoint.name: endpoint for endpoint in registration.endpoints},
        rack=registration.rack,
        fenced=False,
        directories=tuple(registration.directories),
    )
    records += _reelect(image, registered, renew=not clean)
    return Decision(records, epoch)


def _register_record(registration: Registration, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in registration.endpoints
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.lowest,
                max_supported_version=feature.level,
            )
            for feature in FEATURES
        ],
        rack=registration.rack,
        fenced=True,
        log_dirs=list(registration.directories),
    )


def change_directories(
    image: MetadataImage, broker_id: int, online: Sequence[bytes]
) -> Decision[None]:
    """A broker's working folders are now `online`: partitions in lost ones get another leader.

    A broker that lost all of its folders stops instead, so `online` must name at least one.
    """
    if not online:
        raise ValueError("a broker without a working folder cannot stay registered")
    broker = image.brokers[broker_id]
    if set(online) == set(broker.directories):
        return Decision([], None)
    records: list[Message] = [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=list(online)
        )
    ]
    changed = broker._replace(directories=tuple(online))
    records += _reelect(image, changed, renew=False)
    return Decision(records, None)


def assign_directories(
    image: MetadataImage, broker_id: int, chosen: Mapping[tuple[bytes, int], bytes]
) -> Decision[None]:
    """Note which folder a broker chose for its replicas: (topic id, partition) -> folder id.

    A partition that could not be led while its folder was missing can be again. Partitions that are
    gone meanwhile are passed over.
    """
    records: list[Message] = []
    for (topic_id, index), directory in chosen.items():
        topic = image.topics_by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None or partition.directory_of(broker_id) == directory:
            continue
        directories = [
            directory if replica == broker_id else old
            for replica, old in zip(partition.replicas, partition.directories, strict=True)
        ]
        record = PartitionChangeRecord(
            partition_id=index, topic_id=topic_id, directories=directories
        )
        leader = clean_leader(partition._replace(directories=tuple(directories)), image.brokers)
        if leader != partition.leader:
            record.leader = leader
        records.append(record)
    return Decision(records, None)


def _reelect(image: MetadataImage, broker: BrokerImage, *, renew: bool) -> list[Message]:
    """New terms for the partitions of `broker`, after its registration became what is given."""
    brokers = {**image.brokers, broker.id: broker}
    records: list[Message] = []
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if broker.id not in partition.replicas:
                continue
            leader = clean_leader(partition, brokers)
            if leader != partition.leader or (renew and leader == broker.id):
                records.append(lead_record(topic, partition, leader))
    return records
