"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.server.contract import Handler
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: ListGroupsRequest) -> ListGroupsResponse:
    states = frozenset(state.strip().lower() for state in request.states_filter)
    kinds = frozenset(kind.lower() for kind in request.types_filter)
    response = ListGroupsResponse()
    try:
        for _, shard in context.services.coordinators.groups.shards():
            response.groups += shard.list_groups(states, kinds)
    except KafkaError as error:
        return ListGroupsResponse(error_code=int(error.code))
    return response


HANDLER = Handler(on_broker=handle)
