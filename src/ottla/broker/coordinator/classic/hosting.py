"""Classic groups among the groups of a shard."""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinator.classic import (
    conversion,
    joining,
    rebalancing,
    requests,
    sessions,
    stored,
)
from ottla.broker.coordinator.classic.describe import describe as described
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.group_kind import ClassicProtocol, GroupKind, Host
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup

DESCRIBE_NOT_FOUND_FROM: Final = 6


def create(host: Host, group_id: str) -> ClassicGroup:
    return ClassicGroup(group_id, host.settings.classic, host.random)


def replay(host: Host, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    group = host.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            del host.groups[key.group]
        return
    if not isinstance(group, ClassicGroup):
        group = host.groups[key.group] = create(host, key.group)
    stored.replay(group, value)


def describe(host: Host, group_id: str, api_version: int) -> DescribedGroup:
    group = host.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return described(group)
    answer = DescribedGroup(group_id=group_id, group_state="Dead")
    if api_version >= DESCRIBE_NOT_FOUND_FROM:
        answer.error_code = int(ErrorCode.GROUP_ID_NOT_FOUND)
        answer.error_message = f"Group {group_id} not found."
    return answer


KIND: Final[GroupKind[ClassicGroup]] = GroupKind(
    name=ClassicGroup.kind,
    record_keys=(GroupMetadataKey,),
    create=create,
    replay=replay,
    loaded=rebalancing.loaded,
    timer_fired=rebalancing.timer_fired,
    delete=conversion.delete,
    offsets_committed=sessions.offsets_committed,
    classic_protocol=ClassicProtocol(
        join=joining.join, sync=requests.sync, heartbeat=requests.heartbeat, leave=requests.leave
    ),
    value_versions={GroupMetadataValue: stored.VALUE_VERSION},
)
