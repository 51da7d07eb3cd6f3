"""The faults that a cluster must survive, and so the limits of the nemesis.

Kills, pauses, cut and clogged networks, wrong clocks, bits that a disk returns flipped: any number,
anywhere. Metadata is synced before it is promised, so power may fail on any controller at any time.

For records it depends. With flush.messages=1 a record is synced wherever it counts, and power may
fail everywhere at once. With Kafka's default it is not: a replica that lost power comes back with
less than it had acknowledged, and only another member of the ISR that kept its power has the rest.
So power may fail on brokers only as long as every partition keeps a member of its ISR that runs on,
in touch with the controller, until the others are out of that ISR. While the ISR is full that is
more than "fewer than min.insync.replicas brokers".

Once the ISR has shrunk below min.insync.replicas nothing is acknowledged, and the replicas that
left it since then (in good order, or because they were cut off) are in the ELR and have everything
that was acknowledged. So where min.insync.replicas is 2 or more, power may fail on one broker at
any time, whatever the size of the ISR, provided that no other member of ISR and ELR is killed until
the controller has taken that broker out of both. With min.insync.replicas=1 a single leader goes
on, and nobody else has its records if its power fails.

A disk that fails counts as lost power. If the metadata disk of a voter is lost for good, its vote
is lost too: the other voters must be a majority, and no voter may leave until the new disk has
replaced the old one as a voter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.metadata.image import MetadataImage, PartitionImage


def _partitions(image: MetadataImage) -> Iterable[PartitionImage]:
    for topic in image.topics.values():
        yield from topic.partitions.values()


def is_whole(image: MetadataImage) -> bool:
    """True if every partition has a leader, at least two replicas, and all of them in its ISR."""
    return all(
        part.leader >= 0 and len(part.isr) > 1 and set(part.isr) == set(part.replicas)
        for part in _partitions(image)
    )


def keeps_eligible(image: MetadataImage) -> bool:
    """True if one broker may lose power at any size of the ISR."""
    min_isr_of = min_isr_by_topic(image)
    return all(min_isr_of(topic) > 1 for topic in image.topics)


def counted_on(part: PartitionImage) -> tuple[int, ...]:
    """Return the replicas that have everything acknowledged, as far as the controller knows."""
    return (*part.isr, *part.eligible_leader_replicas)


def losses_max(image: MetadataImage) -> int:
    """Return how many brokers may lose power at once while the image is whole."""
    return min((len(part.isr) for part in _partitions(image)), default=1) - 1


def may_lose_disk(voters: Collection[int], voter: int, *, may_shrink: bool) -> bool:
    """True if the other voters stay a majority, also after two removals under way."""
    return voter in voters and len(voters) >= (5 if may_shrink else 3)


def forgotten_by(image: MetadataImage, brokers: Collection[int], epochs: dict[int, int]) -> bool:
    """True if the controller counts on no data that these brokers had in these broker epochs."""
    for broker_id in brokers:
        broker = image.brokers.get(broker_id)
        if broker is None or broker.epoch != epochs.get(broker_id):
            continue
        if not broker.fenced or any(broker_id in counted_on(part) for part in _partitions(image)):
            return False
    return True
