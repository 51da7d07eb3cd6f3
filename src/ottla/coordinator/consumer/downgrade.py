"""From a consumer group whose members all speak the classic protocol back to a classic group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.member import Member as ClassicMember
from ottla.coordinator.consumer.assignors import Partitions
from ottla.coordinator.consumer.embedded import version_of, write_assignment
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.outbox import Now, Outbox
from ottla.metadata.image import MetadataImage


def to_classic(
    group: ClassicGroup,
    members: Iterable[Member],
    targets: Mapping[str, Partitions],
    generation: int,
    image: MetadataImage,
    now: Now,
    outbox: Outbox,
) -> None:
    """Fill an empty classic group with them; each works on what it was to get last."""

    def assignment_of(member: ClassicMember, metadata: bytes) -> bytes:
        return write_assignment(targets.get(member.member_id, {}), version_of(metadata), image)

    group.adopt(map(_classic, members), generation, assignment_of, now, outbox)


def _classic(member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols={one.name: one.metadata for one in member.classic.supported_protocols},
    )
