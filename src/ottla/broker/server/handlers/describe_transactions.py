"""DescribeTransactions: the state of transactional ids."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.security.rights import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: DescribeTransactionsRequest) -> Any:
    gathering = Gathering(partial(_combined, context))
    for transactional_id in request.transactional_ids:
        _ask(context, transactional_id, gathering)
    gathering.close()
    return gathering.result


def _ask(context: BrokerContext, transactional_id: str, gathering: Gathering) -> None:
    def refuse(error: KafkaError) -> DescribeTransactionsResponse:
        state = TransactionState(transactional_id=transactional_id, error_code=error.code)
        return DescribeTransactionsResponse(transaction_states=[state])

    part = gathering.part(refuse)
    if not context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        part.fail(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not transactional_id:
        part.fail(KafkaError(ErrorCode.INVALID_REQUEST))
        return
    context.services.coordinators.transactions.coordinator.request(
        transactional_id,
        part,
        lambda shard, now, outbox: shard.describe(transactional_id, part, outbox),
        writes=False,
    )


def _combined(
    context: BrokerContext, parts: list[DescribeTransactionsResponse]
) -> DescribeTransactionsResponse:
    states = [state for part in parts for state in part.transaction_states]
    if context.services.authorizer is not None:
        for state in states:
            state.topics = [
                topic
                for topic in state.topics
                if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quiet=True)
            ]
    return DescribeTransactionsResponse(transaction_states=states)


HANDLER = Handler(on_broker=handle)
