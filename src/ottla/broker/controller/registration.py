"""Registers brokers and controllers.

A starting broker gets an epoch, the offset of its registration, and is fenced until its heartbeats
show that it has read that far. It loses the leadership and ISR membership of an earlier process
with its id: the end of its logs may be lost. If it names the epoch in which they were closed, and
that is the last one, it stays in the ELR, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.broker.controller.broker_states import UNFENCE, leave, leave_folders
from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.controller.limits import repeated
from ottla.broker.controller.partition_change import Target, change_partition, without
from ottla.broker.controller.unclean import ElectionOf
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.features import FEATURES
from ottla.broker.metadata.image import BrokerImage, MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
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
from ottla.protocol.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.protocol.schema import Message
from ottla.protocol.uuids import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY

RESERVED = frozenset({MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY})


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    election_of: ElectionOf,
    *,
    is_alive: bool,
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker, fenced; the response has its epoch. `is_alive`: the broker that has the id
    now has a valid session."""
    existing = image.brokers.get(request.broker_id)
    _check(image, request, existing, is_alive)
    records = missing_features(image)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        records += _amended(image, request, existing, election_of)
        return Decision(records, BrokerRegistrationResponse(broker_epoch=existing.epoch))
    records += _left_behind(image, request, existing, election_of)
    epoch = image.offset + 1 + len(records)
    records.append(_record(request, epoch))
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _left_behind(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    existing: BrokerImage | None,
    election_of: ElectionOf,
) -> list[Message]:
    """Return the records for what an earlier process leaves: its membership in every ISR; and in
    every ELR, too, if its logs were not closed properly or are in a log dir that is gone."""
    if existing is None:
        # Unregistered, or never known: the data may belong to another broker.
        unknown = _registered(request, image.offset, fenced=True)
        return leave(image, unknown, election_of, lost=True)
    gone = existing._replace(fenced=True)
    if request.previous_broker_epoch != existing.epoch:
        return leave(image, gone, election_of, lost=True)
    records = leave(image, gone, election_of)
    lost = set(existing.directories) - set(request.log_dirs)
    if lost:
        after = image.apply(records, image.offset + len(records), image.epoch)
        records += leave_folders(after, gone, lost, election_of)
    return records


def take_in(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    election_of: ElectionOf,
) -> Decision[BrokerRegistrationResponse]:
    """Register and unfence at once a broker in the process of the only controller.

    While it was away no other broker could take anything over from it. So it continues to lead its
    partitions if its logs are intact: if it names the epoch in which they were closed. After a
    crash, partitions that others are in sync with go to them, and it leads each of the rest in a
    new epoch, by which consumers notice offsets that were assigned twice.
    """
    existing = image.brokers.get(request.broker_id)
    _check(image, request, existing, is_alive=False)
    clean = existing is None or request.previous_broker_epoch == existing.epoch
    records = missing_features(image)
    epoch = image.offset + 1 + len(records)
    records += [
        _record(request, epoch),
        BrokerRegistrationChangeRecord(
            broker_id=request.broker_id, broker_epoch=epoch, fenced=UNFENCE
        ),
    ]
    records += _resume(image, _registered(request, epoch, fenced=False), election_of, clean)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _registered(request: BrokerRegistrationRequest, epoch: int, *, fenced: bool) -> BrokerImage:
    return BrokerImage(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints={},
        rack=request.rack,
        fenced=fenced,
        directories=tuple(request.log_dirs),
    )


def _resume(
    image: MetadataImage, broker: BrokerImage, election_of: ElectionOf, clean: bool
) -> Iterable[Message]:
    brokers = {**image.brokers, broker.id: broker}
    min_isr_of = min_isr_by_topic(image)
    me = (broker.id,)
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if broker.id not in partition.replicas:
                continue
            target = Target.of(partition)
            others = without(partition.isr, me)
            others_eligible = without(partition.eligible_leader_replicas, me)
            if not clean and (others or others_eligible):
                target = target._replace(isr=others)
            record = change_partition(
                topic.id,
                partition,
                brokers,
                target,
                election=election_of(topic.name),
                min_isr=min_isr_of(topic.name),
                lost=() if clean else me,
            )
            if record is None and not clean and partition.leader == broker.id:
                record = PartitionChangeRecord(
                    partition_id=partition.index, topic_id=topic.id, leader=broker.id
                )
            if record is not None:
                yield record


def missing_features(image: MetadataImage) -> list[Message]:
    """Return the feature levels that the first broker of a cluster finalizes."""
    if image.features:
        return []
    return [FeatureLevelRecord(name=f.name, feature_level=f.level) for f in FEATURES]


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Record the endpoints and features of a controller."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[ControllerEndpoint(**_endpoint(e)) for e in request.listeners],
        features=[ControllerFeature(**_feature(f)) for f in request.features],
    )
    known = image.controllers.get(request.controller_id)
    again = known is not None and known.incarnation_id == request.incarnation_id
    return Decision([] if again else [record], ControllerRegistrationResponse(error_message=None))


def _amended(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    existing: BrokerImage,
    election_of: ElectionOf,
) -> list[Message]:
    """The same process registers again: it keeps its epoch and its fencing."""
    lost = set(existing.directories) - set(request.log_dirs)
    records = leave_folders(image, existing, lost, election_of) if lost else []
    record = _record(request, existing.epoch)
    record.fenced = existing.fenced
    record.in_controlled_shutdown = existing.in_controlled_shutdown
    record.cordoned_log_dirs = list(existing.cordoned_directories) or None
    return [*records, record]


def _check(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    existing: BrokerImage | None,
    is_alive: bool,
) -> None:
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Broker {request.broker_id} belongs to cluster {request.cluster_id}, this is cluster "
            f"{image.cluster_id}.",
        )
    if existing is not None and is_alive and not _replaces(request, existing):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker with the id {request.broker_id} is registered and alive.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers with ZooKeeper cannot be registered."
        )
    _check_folders(image, request)
    _check_features(image.features or {f.name: f.level for f in FEATURES}, request)


def _replaces(request: BrokerRegistrationRequest, existing: BrokerImage) -> bool:
    """True for the same process, or one that could lock the log dirs of the old one, which is gone
    then."""
    return request.incarnation_id == existing.incarnation_id or not set(
        existing.directories
    ).isdisjoint(request.log_dirs)


def _check_folders(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    problem = None
    given = set(request.log_dirs)
    if not given:
        problem = "No directories specified in request"
    elif given & RESERVED:
        problem = "Reserved directory ID in request"
    elif repeated(request.log_dirs):
        problem = "Duplicate directory ID in request"
    else:
        for broker in image.brokers.values():
            if broker.id != request.broker_id and given & set(broker.directories):
                problem = f"Broker {broker.id} is already registered with one of the directories"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, problem)


def _check_features(finalized: Mapping[str, int], request: BrokerRegistrationRequest) -> None:
    """Refuse a broker that does not support a finalized feature level."""
    offered = {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, level in finalized.items():
        lowest, highest = offered.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Broker {request.broker_id} supports {name} from {lowest} to {highest}, but the "
                f"cluster has it at {level}.",
            )


def _record(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(**_endpoint(e)) for e in request.listeners],
        features=[BrokerFeature(**_feature(f)) for f in request.features],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def _endpoint(given: Any) -> dict[str, Any]:
    return {
        "name": given.name,
        "host": given.host,
        "port": given.port,
        "security_protocol": given.security_protocol,
    }


def _feature(given: Any) -> dict[str, Any]:
    return {
        "name": given.name,
        "min_supported_version": given.min_supported_version,
        "max_supported_version": given.max_supported_version,
    }
