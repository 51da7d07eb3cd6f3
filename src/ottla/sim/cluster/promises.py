"""How much a cluster is promised to survive, and so how far the nemesis may go.

Kills, pauses, cut and clogged networks, wrong clocks, bits that a disk returns flipped: any number,
anywhere. Metadata is synced before it is promised, so power may fail on any controller at any time.

Records are another matter. With flush.messages=1 a record is synced wherever it counts, and power
may fail everywhere at once. With Kafka's default it is not: a replica that lost power comes back
with less than it had acknowledged, and what makes up for it is another member of the ISR that did
not. So power may fail on brokers only as long as every partition keeps a member of its ISR that
runs on, in touch with the controller, until the others are out of that ISR. While the ISR is full
that is more than "fewer than min.insync.replicas brokers".

Once it has shrunk below min.insync.replicas nothing is acknowledged, and those that left it since
then (in good order, or because they were cut off) are in the ELR, with all that was. So where
min.insync.replicas is 2 or more, power may fail on one broker at any time, whatever the size of the
ISR, provided that nobody else of ISR and ELR is killed until the controller has taken that one out
of both. With min.insync.replicas=1 a leader alone goes on, and its power is all there is.

A disk that fails counts as lost power. One that is lost for good takes a vote with it, where it
holds the metadata of a voter: the others must be a majority, and no voter may go until the new disk
has the vote of the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.controller.eligible import min_isr_by_topic
from ottla.metadata.image import MetadataImage, PartitionImage


def _partitions(image: MetadataImage) -> Iterable[PartitionImage]:
    for topic in image.topics.values():
        yield from topic.partitions.values()


def is_whole(image: MetadataImage) -> bool:
    """Every partition is led, and by more than one replica in sync, all it has."""
    return all(
        part.leader >= 0 and len(part.isr) > 1 and set(part.isr) == set(part.replicas)
        for part in _partitions(image)
    )


def keeps_eligible(image: MetadataImage) -> bool:
    """Whether one broker may lose power however few are in sync."""
    min_isr_of = min_isr_by_topic(image)
    return all(min_isr_of(topic) > 1 for topic in image.topics)


def counted_on(part: PartitionImage) -> tuple[int, ...]:
    """Who has everything that is acknowledged, as far as the controller knows."""
    return (*part.isr, *part.eligible_leader_replicas)


def losses_max(image: MetadataImage) -> int:
    """How many brokers at most may lose power at once, while the image is whole."""
    return min((len(part.isr) for part in _partitions(image)), default=1) - 1


def may_lose_disk(voters: Collection[int], voter: int, *, may_shrink: bool) -> bool:
    """Whether the others decide without it; also after two removals that may be on their way."""
    return voter in voters and len(voters) >= (5 if may_shrink else 3)


def forgotten_by(image: MetadataImage, brokers: Collection[int], epochs: dict[int, int]) -> bool:
    """The controller counts on nothing these brokers had in the lives of these epochs."""
    for broker_id in brokers:
        broker = image.brokers.get(broker_id)
        if broker is None or broker.epoch != epochs.get(broker_id):
            continue
        if not broker.fenced or any(broker_id in counted_on(part) for part in _partitions(image)):
            return False
    return True
