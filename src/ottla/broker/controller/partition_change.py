"""Makes the record for a change of one partition.

Every change of replicas, ISR and directories goes through `change_partition`, so that all have the
same consequences: a reassignment that has become complete is completed, a leader that cannot lead
is replaced, and the last replicas with all committed records are remembered: in the ELR (see
`eligible.py`) or, if none is kept, the very last one in the ISR.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.controller.assignments import default_directory
from ottla.broker.controller.elections import Election, elect
from ottla.broker.metadata.changes import NO_LEADER_CHANGE
from ottla.broker.metadata.image import NO_LEADER, BrokerImage, PartitionImage
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.uuids import UNASSIGNED_DIRECTORY

RECOVERED: Final = 0
RECOVERING: Final = 1

NOT_MOVED: Final[Mapping[int, bytes]] = {}

NO_ELR: Final = 0
"""As `min_isr`: no ELR is kept."""


class Target(NamedTuple):
    """The wanted state of a partition."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovery: int = RECOVERED

    @classmethod
    def of(cls, partition: PartitionImage) -> Target:
        """Return the present state of a partition."""
        return cls(
            partition.isr,
            partition.replicas,
            partition.adding_replicas,
            partition.removing_replicas,
            partition.leader_recovery_state,
        )

    def completed(self) -> Target:
        """Return the state without the reassignment, if all remaining replicas are in sync (at
        least one)."""
        if not self.adding and not self.removing:
            return self
        replicas = without(self.replicas, self.removing)
        isr = without(self.isr, self.removing)
        if not isr or not replicas or not set(replicas).issubset(isr):
            return self
        return Target(isr, replicas, (), (), self.recovery)


def change_partition(
    topic_id: bytes,
    partition: PartitionImage,
    brokers: Mapping[int, BrokerImage],
    target: Target | None = None,
    *,
    election: Election = Election.ONLINE,
    moved: Mapping[int, bytes] = NOT_MOVED,
    min_isr: int = NO_ELR,
    lost: Collection[int] = (),
) -> PartitionChangeRecord | None:
    """Return the record that takes `partition` to `target`; None if nothing changes. `moved` are
    replicas with a new directory, `lost` those that may have lost data. If no ELR is kept, an empty
    ISR in the target means: unchanged."""
    wanted = (Target.of(partition) if target is None else target).completed()
    directories = _directories(partition, wanted.replicas, brokers, moved)
    placed = partition
    if wanted.replicas != partition.replicas or directories != partition.directories:
        placed = partition._replace(replicas=wanted.replicas, directories=directories)
    record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id)
    needed = min(min_isr, len(wanted.replicas))
    elr = eligible(partition, wanted, needed, lost)
    last = () if min_isr == NO_ELR else last_known(partition, wanted, elr)
    isr, recovery = wanted.isr, wanted.recovery
    if not isr and min_isr == NO_ELR:
        isr = partition.isr
    elected = elect(placed, wanted.isr, brokers, election, elr, last)
    if not wanted.isr and elected.leader in elr:
        isr = (elected.leader,)
    if elected.leader != partition.leader:
        record.leader = elected.leader
        if elected.unclean:
            isr, elr, recovery = (elected.leader,), (), RECOVERING
    elif not set(partition.replicas).issubset(wanted.replicas):
        # A new epoch keeps removed replicas from being counted by fetches in flight.
        record.leader = partition.leader
    if isr != partition.isr:
        record.isr = list(isr)
    if recovery != partition.leader_recovery_state:
        record.leader_recovery_state = recovery
    _remember(record, partition, () if len(isr) >= needed else without(elr, isr), last)
    _place(record, partition, wanted, directories)
    return record if _says_something(record) else None


def eligible(
    partition: PartitionImage, wanted: Target, needed: int, lost: Collection[int]
) -> tuple[int, ...]:
    """Return the replicas that have all committed records without being in the wanted ISR; none if
    that is large enough for the leader to commit without them."""
    if len(wanted.isr) >= needed:
        return ()
    had = {*partition.eligible_leader_replicas, *partition.isr}
    return tuple(sorted((had & set(wanted.replicas)) - set(wanted.isr) - set(lost)))


def last_known(partition: PartitionImage, wanted: Target, elr: tuple[int, ...]) -> tuple[int, ...]:
    """Return the replica to fall back on when none has all committed records: the last that had
    them. Otherwise it is the last leader; Kafka stays with that one, although it left before the
    others."""
    had = (*partition.isr, *partition.eligible_leader_replicas)
    if not wanted.isr and not elr and len(had) == 1:
        return had
    if partition.leader != NO_LEADER:
        return (partition.leader,)
    return partition.last_known_elr


def _remember(
    record: PartitionChangeRecord,
    partition: PartitionImage,
    elr: tuple[int, ...],
    last: tuple[int, ...],
) -> None:
    """Add the ELR to the record, and the last known leader as long as there is no leader."""
    if elr != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = list(elr)
    leader = partition.leader if record.leader == NO_LEADER_CHANGE else record.leader
    last = last if leader == NO_LEADER else ()
    if last != partition.last_known_elr:
        record.last_known_elr = list(last)


def without(replicas: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in gone)


def _directories(
    partition: PartitionImage,
    replicas: tuple[int, ...],
    brokers: Mapping[int, BrokerImage],
    moved: Mapping[int, bytes],
) -> tuple[bytes, ...]:
    """Return the directory of each replica: the known one, the reported one, or that of a new
    replica."""
    if replicas == partition.replicas and not moved:
        return partition.directories
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    known.update(moved)
    return tuple(
        known[replica] if replica in known else _first_directory(brokers.get(replica))
        for replica in replicas
    )


def _first_directory(broker: BrokerImage | None) -> bytes:
    return UNASSIGNED_DIRECTORY if broker is None else default_directory(broker)


def _place(
    record: PartitionChangeRecord,
    partition: PartitionImage,
    wanted: Target,
    directories: tuple[bytes, ...],
) -> None:
    if wanted.replicas != partition.replicas:
        record.replicas = list(wanted.replicas)
    if directories != partition.directories:
        record.directories = list(directories)
    if wanted.adding != partition.adding_replicas:
        record.adding_replicas = list(wanted.adding)
    if wanted.removing != partition.removing_replicas:
        record.removing_replicas = list(wanted.removing)


def _says_something(record: PartitionChangeRecord) -> bool:
    return not (
        record.leader == NO_LEADER_CHANGE
        and record.isr is None
        and record.replicas is None
        and record.directories is None
        and record.adding_replicas is None
        and record.removing_replicas is None
        and record.leader_recovery_state < 0
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
    )
