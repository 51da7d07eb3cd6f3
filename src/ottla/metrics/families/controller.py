"""The state of the cluster, told by controllers, and the metadata that a node has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.metrics.exposition import counter, gauge
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.metadata.log import MetadataLog
    from ottla.metrics.changes import MetadataChanges

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_METADATA: Final = "kafka_server_brokermetadatametrics_"
PARTITIONS_BETWEEN_PAUSES: Final = 16


def controller_families(metadata: MetadataLog, changes: MetadataChanges) -> Families:
    image = metadata.image
    active = sum(not broker.fenced for broker in image.brokers.values())
    partitions = offline = not_preferred = 0
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            partitions += 1
            offline += partition.leader < 0
            not_preferred += bool(partition.replicas) and partition.leader != partition.replicas[0]
            if not partitions % PARTITIONS_BETWEEN_PAUSES:
                yield None
    for name, text, value in (
        ("activecontrollercount", "1 on the active controller", int(metadata.is_leader)),
        ("activebrokercount", "Brokers that serve", active),
        ("fencedbrokercount", "Brokers that are fenced", len(image.brokers) - active),
        ("globaltopiccount", "Topics", len(image.topics)),
        ("globalpartitioncount", "Partitions", partitions),
        ("offlinepartitionscount", "Partitions without a leader", offline),
        ("preferredreplicaimbalancecount", "Not led by the preferred replica", not_preferred),
    ):
        yield gauge(_CONTROLLER + name, text, value)
    yield counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Elections of replicas that may lack committed records",
        changes.unclean_elections,
    )


def metadata_families(image: MetadataImage) -> Families:
    yield gauge(_METADATA + "last_applied_record_offset", "The last offset applied", image.offset)
    yield gauge(_METADATA + "last_applied_record_epoch", "The epoch of that offset", image.epoch)
