"""Asking the brokers that coordinate something, each for what is its own, until all have answered.

Coordinators move, load, and may not be there yet. What such an answer refuses is asked again; what
is refused for good stands beside the other answers as a `KafkaError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.network.backoff import Backoff
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Answers = dict[str, T | KafkaError]
Ask = Callable[[Connection, int, list[str]], Awaitable[Answers[T]]]
"""From (connection, node id, keys it coordinates) to the answer for each key."""

GROUP_COORDINATOR = 0
BATCHED_LOOKUP_FROM = 4


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(ErrorCode.of(code), message) if code else None


def raise_for(code: int, message: str | None = None) -> None:
    if error := error_of(code, message):
        raise error


def value_of(answers: Mapping[str, T | KafkaError], key: str) -> T:
    answer = answers[key]
    if isinstance(answer, KafkaError):
        raise answer
    return answer


async def ask_coordinators(
    cluster: Cluster, keys: Iterable[str], ask: Ask[T], *, resend: bool = True
) -> Answers[T]:
    """The answer for each group. Without `resend` a lost connection ends it: the broker may have
    done the work already."""
    backoff = Backoff(cluster.runtime, cluster.retry_within_ms)
    wanted = list(dict.fromkeys(keys))
    answers: Answers[T] = dict.fromkeys(wanted, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    missing = wanted
    while missing:
        asked = missing
        answers |= await cluster.retrying(lambda: _round(cluster, asked, ask), resend=resend)  # noqa: B023
        missing = [key for key in asked if _may_pass(answers[key])]
        if missing and not await backoff.pause():
            break
    return answers


def _may_pass(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code.retriable


async def _round(cluster: Cluster, keys: Sequence[str], ask: Ask[T]) -> Answers[T]:
    found = await find_coordinators(cluster, keys)
    answers: Answers[T] = {}
    by_node: dict[int, list[str]] = {}
    for key, where in found.items():
        if isinstance(where, KafkaError):
            answers[key] = where
        else:
            by_node.setdefault(where, []).append(key)
    if not by_node.keys() <= cluster.view.brokers.keys():
        await cluster.refresh(())

    async def ask_one(node_id: int, own: list[str]) -> Answers[T]:
        return await ask(await cluster.broker(node_id), node_id, own)

    parts = await asyncio.gather(*(ask_one(node, own) for node, own in by_node.items()))
    for part in parts:
        answers |= part
    return answers


async def find_coordinators(cluster: Cluster, keys: Sequence[str]) -> Answers[int]:
    from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

    connection = await cluster.any_broker()
    version = connection.version_of(FindCoordinatorRequest)
    if version >= BATCHED_LOOKUP_FROM:
        request = FindCoordinatorRequest(key_type=GROUP_COORDINATOR, coordinator_keys=list(keys))
        response = await connection.request(request, version=version)
        return {found.key: _place(found) for found in response.coordinators}
    requests = (FindCoordinatorRequest(key=key) for key in keys)
    answers = await asyncio.gather(
        *(connection.request(request, version=version) for request in requests)
    )
    return {key: _place(found) for key, found in zip(keys, answers, strict=True)}


def _place(found: Any) -> int | KafkaError:
    return error_of(found.error_code, found.error_message) or int(found.node_id)
