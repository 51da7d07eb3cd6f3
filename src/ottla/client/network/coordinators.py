"""Asks coordinators, each about its own keys, until all keys have a result.

Coordinators move, load, and may not exist yet. Retriable errors are retried; a permanent error is
returned as the key's `KafkaError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Answers = dict[str, T | KafkaError]
Ask = Callable[[Connection, int, list[str]], Awaitable[Answers[T]]]
"""From (connection, node id, keys it coordinates) to the result for each key."""


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
    cluster: Cluster,
    keys: Iterable[str],
    ask: Ask[T],
    *,
    kind: CoordinatorType = CoordinatorType.GROUP,
    resend: bool = True,
) -> Answers[T]:
    """Return the result for each key. Without `resend`, a lost connection ends it: the broker may
    already have done the work."""
    backoff = cluster.backoff()
    wanted = list(dict.fromkeys(keys))
    answers: Answers[T] = dict.fromkeys(wanted, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    missing = wanted
    while missing:
        asked = missing
        answers |= await cluster.retrying(lambda: _round(cluster, kind, asked, ask), resend=resend)  # noqa: B023
        missing = [key for key in asked if _may_pass(answers[key])]
        if missing and not await backoff.pause():
            answers |= {key: _gave_up(answers[key]) for key in missing}
            break
    return answers


def _gave_up(answer: T | KafkaError) -> T | KafkaError:
    """Return the error with a hint that the coordinator was waited for, and where to look."""
    assert isinstance(answer, KafkaError)
    return KafkaError(
        answer.code,
        f"its coordinator did not become available in time, see the broker's log; it last said: "
        f"{answer.message}",
    )


def _may_pass(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code.retriable


async def _round(
    cluster: Cluster, kind: CoordinatorType, keys: Sequence[str], ask: Ask[T]
) -> Answers[T]:
    found = await cluster.find_coordinators(kind, keys)
    answers: Answers[T] = {}
    by_node: dict[int, list[str]] = {}
    for key, where in found.items():
        if isinstance(where, KafkaError):
            answers[key] = where
        else:
            by_node.setdefault(where.node_id, []).append(key)

    async def ask_one(node_id: int, own: list[str]) -> Answers[T]:
        return await ask(await cluster.broker(node_id), node_id, own)

    parts = await asyncio.gather(*(ask_one(node, own) for node, own in by_node.items()))
    for part in parts:
        answers |= part
    return answers
