"""Admin calls for groups: list, describe and delete them, and remove members."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ottla.client.admin.group_members import classic_group, consumer_group
from ottla.client.admin.group_values import (
    CLASSIC,
    CONSUMER,
    DEAD,
    DescribedGroup,
    GroupMember,
    ListedGroup,
)
from ottla.client.admin.link import AdminLink
from ottla.client.errors import GroupActive, GroupMissing
from ottla.client.network.cluster import Cluster
from ottla.client.network.coordinators import Answers, ask_coordinators, error_of, raise_for
from ottla.network.connection import Connection
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

STATES_FROM = 4
TYPES_FROM = 5
REMOVED_BY_HAND = "removed by an administrator"


class GroupAdmin:
    _link: AdminLink

    # Listing

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """Return all groups of the cluster, or those with one of these states and types."""

        async def ask(node_id: int) -> list[ListedGroup]:
            return await _list(await self._link.cluster.broker(node_id), node_id, states, types)

        return sorted(await self._link.ask_each_broker(ask))

    async def list_consumer_groups(self, *, states: Collection[str] = ()) -> list[ListedGroup]:
        """Return the consumer groups of both protocols, and groups that only hold offsets."""
        return [
            group
            for group in await self.list_groups(states=states)
            if group.type in (None, CLASSIC, CONSUMER) and group.protocol_type in ("", CONSUMER)
        ]

    # Description

    async def describe_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, DescribedGroup | KafkaError]:
        """Describe groups of either protocol; GROUP_ID_NOT_FOUND for a group that does not exist.

        >>> groups = await admin.describe_groups(["ledger"])
        >>> [member.client_id for member in groups["ledger"].members]
        """
        return await ask_coordinators(self._link.cluster, group_ids, _describe)

    async def describe_group(self, group_id: str) -> DescribedGroup:
        """Describe one group. Raises `GroupMissing` if it does not exist."""
        return await describe_group(self._link.cluster, group_id)

    # Deletion

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their committed offsets."""
        from ottla.protocol.messages.delete_groups import DeleteGroupsRequest

        async def ask(connection: Connection, _node: int, own: list[str]) -> Answers[None]:
            response = await connection.request(DeleteGroupsRequest(groups_names=own))
            return {found.group_id: error_of(found.error_code) for found in response.results}

        return await ask_coordinators(self._link.cluster, group_ids, ask, resend=False)

    async def delete_group(self, group_id: str) -> None:
        """Delete one group. Raises `GroupMissing`, or `GroupActive` if it has members."""
        error = (await self.delete_groups([group_id]))[group_id]
        if error is not None:
            raise _named_error(group_id, error)

    # Members

    async def remove_members_from_group(
        self,
        group_id: str,
        members: Iterable[GroupMember | str] | None = None,
        *,
        reason: str = REMOVED_BY_HAND,
    ) -> dict[str, KafkaError | None]:
        """Remove members at once: by group_instance_id, as `describe_group` returns them, or all.

        Use it for consumers that are gone, so that the group does not wait for them. A consumer
        that is still running rejoins by itself.
        """
        chosen = (await self.describe_group(group_id)).members if members is None else members
        wanted = [_identity(member) for member in chosen]
        if not wanted:
            return {}

        async def ask(
            connection: Connection, _node: int, _own: list[str]
        ) -> Answers[dict[str, KafkaError | None]]:
            return {group_id: await _remove(connection, group_id, wanted, reason)}

        answer = (await ask_coordinators(self._link.cluster, [group_id], ask, resend=False))[
            group_id
        ]
        if isinstance(answer, KafkaError):
            raise _named_error(group_id, answer)
        return answer


async def describe_group(cluster: Cluster, group_id: str) -> DescribedGroup:
    found = (await ask_coordinators(cluster, [group_id], _describe))[group_id]
    if isinstance(found, KafkaError):
        raise _named_error(group_id, found)
    return found


_NOT_OF_THIS_PROTOCOL = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


def _named_error(group_id: str, error: KafkaError) -> Exception:
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return GroupMissing(group_id)
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return GroupActive(group_id)
    return error


async def _list(
    connection: Connection, node_id: int, states: Collection[str], types: Collection[str]
) -> list[ListedGroup]:
    from ottla.protocol.messages.list_groups import ListGroupsRequest

    version = connection.version_of(ListGroupsRequest)
    _check_filters(version, states, types)
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    response = await connection.request(request, version=version)
    raise_for(response.error_code)
    return [_listed(found, node_id, version) for found in response.groups]


def _check_filters(version: int, states: Collection[str], types: Collection[str]) -> None:
    for wanted, since, what in ((states, STATES_FROM, "state"), (types, TYPES_FROM, "type")):
        if wanted and version < since:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"this cluster is too old to list groups by {what}; list all of them",
            )


def _listed(found: Any, node_id: int, version: int) -> ListedGroup:
    return ListedGroup(
        group_id=found.group_id,
        type=found.group_type.lower() if version >= TYPES_FROM else None,
        state=found.group_state if version >= STATES_FROM else None,
        protocol_type=found.protocol_type,
        coordinator=node_id,
    )


async def _describe(
    connection: Connection, node_id: int, group_ids: list[str]
) -> Answers[DescribedGroup]:
    answers: Answers[DescribedGroup] = {}
    if connection.versions.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
        answers = await _describe_consumer(connection, node_id, group_ids)
    # For a classic group, a coordinator answers that no such consumer group exists.
    rest = [
        group_id
        for group_id in group_ids
        if isinstance(found := answers.get(group_id), KafkaError | None)
        and (found is None or found.code in _NOT_OF_THIS_PROTOCOL)
    ]
    if rest:
        answers |= await _describe_classic(connection, node_id, rest)
    return answers


async def _describe_consumer(
    connection: Connection, node_id: int, group_ids: list[str]
) -> Answers[DescribedGroup]:
    from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    response = await connection.request(ConsumerGroupDescribeRequest(group_ids=group_ids))
    return {
        found.group_id: error_of(found.error_code, found.error_message)
        or consumer_group(found, node_id)
        for found in response.groups
    }


async def _describe_classic(
    connection: Connection, node_id: int, group_ids: list[str]
) -> Answers[DescribedGroup]:
    from ottla.protocol.messages.describe_groups import DescribeGroupsRequest

    response = await connection.request(DescribeGroupsRequest(groups=group_ids))
    answers: Answers[DescribedGroup] = {}
    for found in response.groups:
        error = error_of(found.error_code, found.error_message)
        # Before version 6 a group that does not exist is described as dead.
        if error is None and found.group_state == DEAD:
            error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        answers[found.group_id] = error or classic_group(found, node_id)
    return answers


def _identity(member: GroupMember | str) -> tuple[str, str | None]:
    """Return (member id, instance id), with the instance id if the member has one."""
    if isinstance(member, str):
        return "", member
    if member.instance_id is not None:
        return "", member.instance_id
    return member.member_id, None


async def _remove(
    connection: Connection, group_id: str, members: list[tuple[str, str | None]], reason: str
) -> dict[str, KafkaError | None] | KafkaError:
    from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    identities = [
        MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
        for member_id, instance_id in members
    ]
    response = await connection.request(LeaveGroupRequest(group_id=group_id, members=identities))
    return error_of(response.error_code) or {
        found.group_instance_id or found.member_id: error_of(found.error_code)
        for found in response.members
    }
