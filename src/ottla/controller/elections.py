"""Who leads a partition: the one place where leaders are chosen.

A leader has to be in sync, alive, and its replica in a folder that works. Where nobody is in sync,
one of the ELR will do: it has all that is committed (`eligible.py`). Where nobody is in the ELR
either, the last one that led may have lost the end of its log, but nobody can have more.

Only an unclean election looks beyond all of these, and only where somebody allowed it: what the new
leader does not have is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from ottla.metadata.image import NO_LEADER, BrokerImage, PartitionImage


class Election(Enum):
    ONLINE = "keep the leader if it can lead, else take the first in sync"
    PREFERRED = "the first replica if it can lead, else as ONLINE"
    UNCLEAN = "as ONLINE, and if nobody in sync can lead, the first replica that is alive"


class Elected(NamedTuple):
    leader: int
    unclean: bool = False


def can_lead(broker_id: int, partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> bool:
    """Alive, not on its way out, and the folder that holds the replica in working order."""
    broker = brokers.get(broker_id)
    return (
        broker is not None
        and broker.is_active
        and broker.has_online(partition.directory_of(broker_id))
    )


def elect(
    partition: PartitionImage,
    isr: Collection[int],
    brokers: Mapping[int, BrokerImage],
    election: Election = Election.ONLINE,
    elr: Collection[int] = (),
    last_known: Collection[int] = (),
) -> Elected:
    """The leader of `partition` once `isr` is what is in sync, `elr` who is eligible without being
    so, and `last_known` whom to turn to without both; `NO_LEADER` if nobody may."""
    candidates = isr or elr

    def fits(replica: int) -> bool:
        return replica in candidates and can_lead(replica, partition, brokers)

    if election is Election.PREFERRED and fits(partition.replicas[0]):
        return Elected(partition.replicas[0])
    if fits(partition.leader):
        return Elected(partition.leader)
    for replica in partition.replicas:
        if fits(replica):
            return Elected(replica)
    if not candidates and len(last_known) == 1:
        (last,) = last_known
        if last in partition.replicas and can_lead(last, partition, brokers):
            return Elected(last, unclean=True)
    if election is Election.UNCLEAN:
        for replica in partition.replicas:
            if can_lead(replica, partition, brokers):
                return Elected(replica, unclean=True)
    return Elected(NO_LEADER)
