"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.runtime.pace import at_once, many_in_slices
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.server.context import BrokerContext

AT_ONCE_GROUPS_MAX: Final = 1_000
"""Above this number of groups the answer is built in slices."""


def handle(
    context: BrokerContext, request: ListGroupsRequest
) -> ListGroupsResponse | Coroutine[Any, Any, ListGroupsResponse]:
    try:
        shards = [shard for _, shard in context.services.coordinators.groups.shards()]
    except KafkaError as error:
        return ListGroupsResponse(error_code=int(error.code))
    steps = _answer(context, shards, request)
    if sum(len(shard.groups) for shard in shards) <= AT_ONCE_GROUPS_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


def _answer(
    context: BrokerContext, shards: Iterable[GroupShard], request: ListGroupsRequest
) -> Generator[None, None, ListGroupsResponse]:
    states = frozenset(state.strip().lower() for state in request.states_filter)
    kinds = frozenset(kind.lower() for kind in request.types_filter)
    response = ListGroupsResponse()
    for shard in shards:
        listed = yield from shard.list_groups(states, kinds)
        response.groups += listed
    if not context.may_on_cluster(Operation.DESCRIBE, quiet=True):
        shown = []
        for group in response.groups:
            if context.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quiet=True):
                shown.append(group)
            yield
        response.groups = shown
    return response


HANDLER = Handler(on_broker=handle)
