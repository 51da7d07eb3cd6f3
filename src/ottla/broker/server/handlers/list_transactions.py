"""ListTransactions: the transactional ids that this broker coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinator.consumer.regex import InvalidRegex, TopicRegex
from ottla.broker.coordinator.transactions.states import BY_TITLE
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._coordinated import Gathering
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.context import BrokerContext


def handle(context: BrokerContext, request: ListTransactionsRequest) -> Any:
    coordinator = context.services.coordinators.transactions.coordinator
    unknown = [name for name in request.state_filters if name not in BY_TITLE]
    try:
        matches = _matcher(request.transactional_id_pattern)
        indexes = [index for index, _ in coordinator.shards()]
    except KafkaError as error:
        return _refusal(error)
    gathering = Gathering(lambda parts: _combined(parts, unknown))
    for index in indexes:
        part = gathering.part(_refusal)
        coordinator.hosted(index).request(
            part,
            lambda shard, now, outbox, part=part: shard.list(  # type: ignore[misc]
                request, matches, part, now, outbox
            ),
            writes=False,
        )
    gathering.close()
    return gathering.result


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda name: True
    try:
        regex = TopicRegex(pattern)
    except InvalidRegex as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    # The automaton knows only the characters of topic names; an id with others matches nothing.
    return lambda name: name.isascii() and _plain(name) and regex.matches(name)


def _plain(name: str) -> bool:
    return all(char.isalnum() or char in "._-" for char in name)


def _refusal(error: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


def _combined(
    parts: list[ListTransactionsResponse], unknown: list[str]
) -> ListTransactionsResponse:
    error = next((part.error_code for part in parts if part.error_code), ErrorCode.NONE)
    return ListTransactionsResponse(
        error_code=int(error),
        unknown_state_filters=unknown,
        transaction_states=[state for part in parts for state in part.transaction_states],
    )


HANDLER = Handler(on_broker=handle)
