"""Administration of groups: which there are, who is in them, and how to be rid of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ottla.client.admin.group_members import classic_group, consumer_group
from ottla.client.admin.group_values import DEAD, DescribedGroup, GroupMissing, ListedGroup
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection import Connection
from ottla.client.network.coordinators import Answers, ask_coordinators, error_of, raise_for
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

STATES_FROM = 4
TYPES_FROM = 5


class GroupAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """All groups of the cluster, or those in one of the states and of one of the types."""
        await self._cluster.refresh(())
        parts = await asyncio.gather(
            *(self._groups_of(node, states, types) for node in self._cluster.view.brokers)
        )
        return sorted(found for part in parts for found in part)

    async def _groups_of(
        self, node_id: int, states: Collection[str], types: Collection[str]
    ) -> Iterable[ListedGroup]:
        from ottla.protocol.messages.list_groups import ListGroupsRequest

        async def attempt() -> Iterable[ListedGroup]:
            connection = await self._cluster.broker(node_id)
            version = connection.version_of(ListGroupsRequest)
            _check_filters(version, states, types)
            request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
            response = await connection.request(request, version=version)
            raise_for(response.error_code)
            return [_listed(found, node_id, version) for found in response.groups]

        return await self._cluster.retrying(attempt)

    # Description

    async def describe(self, group_id: str) -> DescribedGroup:
        found = (await self.describe_all([group_id]))[group_id]
        if isinstance(found, KafkaError):
            if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise GroupMissing(group_id)
            raise found
        return found

    async def describe_all(self, group_ids: Iterable[str]) -> Answers[DescribedGroup]:
        """Each group, whatever its protocol; GROUP_ID_NOT_FOUND for one that is not there."""
        return await ask_coordinators(self._cluster, group_ids, self._describe)

    async def _describe(
        self, connection: Connection, node_id: int, group_ids: list[str]
    ) -> Answers[DescribedGroup]:
        answers: Answers[DescribedGroup] = {}
        if connection.versions.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
            answers = await _describe_consumer(connection, node_id, group_ids)
        # A coordinator says of a classic group that there is no such consumer group.
        rest = [
            group_id
            for group_id in group_ids
            if isinstance(found := answers.get(group_id), KafkaError | None)
            and (found is None or found.code in _NOT_OF_THIS_PROTOCOL)
        ]
        if rest:
            answers |= await _describe_classic(connection, node_id, rest)
        return answers

    # Deletion

    async def delete(self, group_ids: Sequence[str]) -> dict[str, KafkaError | None]:
        """Groups without members, with all they have committed."""
        from ottla.protocol.messages.delete_groups import DeleteGroupsRequest

        async def ask(connection: Connection, _node: int, own: list[str]) -> Answers[None]:
            response = await connection.request(DeleteGroupsRequest(groups_names=own))
            return {found.group_id: error_of(found.error_code) for found in response.results}

        return await ask_coordinators(self._cluster, group_ids, ask, resend=False)


_NOT_OF_THIS_PROTOCOL = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


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
        # Before version 6 a group that is not there was described as a dead one.
        if error is None and found.group_state == DEAD:
            error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        answers[found.group_id] = error or classic_group(found, node_id)
    return answers


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
