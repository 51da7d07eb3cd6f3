"""Chooses the leader of a partition: the only place where leaders are chosen.

A leader must be in sync and alive, and its replica in a working log dir. If the ISR is empty, a
replica of the ELR is chosen: it has all committed records (`eligible.py`). If the ELR is empty too,
the last known leader may have lost the end of its log, but no other replica can have more.

Only an unclean election considers other replicas, and only if it was allowed: records that the new
leader does not have are lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from ottla.broker.metadata.image import NO_LEADER, BrokerImage, PartitionImage


class Election(Enum):
    ONLINE = "keep the leader if it can lead, else take the first in sync"
    PREFERRED = "the first replica if it can lead, else as ONLINE"
    UNCLEAN = "as ONLINE, and if nobody in sync can lead, the first replica that is alive"


class Elected(NamedTuple):
    leader: int
    unclean: bool = False


def can_lead(broker_id: int, partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> bool:
    """True if the broker is alive, not shutting down, and the replica's log dir works."""
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
    """Choose a leader from the `isr`, else the `elr`, else `last_known`; `NO_LEADER` if none can
    lead."""
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
