"""Creating and deleting partitions under `controller_mutation_rate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

RATE = 4.0
BURST = int(11 * RATE)


def _new(*topics: tuple[str, int], validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in topics
        ],
        timeout_ms=10_000,
        validate_only=validate_only,
    )


def requests() -> Iterator[tuple[Any, int, bool]]:
    """(request, version, whether the client is throttled). A client that is throttled is muted
    until its bucket is no longer below zero."""
    # The bucket is full, and may go below zero once.
    yield _new(("q1", BURST - 2)), 7, False
    yield _new(("q2", BURST + 6), ("q3", 1)), 7, True
    yield DeleteTopicsRequest(topic_names=["q1"], timeout_ms=10_000), 4, True
    yield (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="q2", count=BURST + 8, assignments=None)],
            timeout_ms=10_000,
        ),
        2,
        True,
    )
    yield _new(("q4", 5)), 5, True
    yield _new(("q5", 6), ("q5 is not valid", 3)), 7, False
    yield _new(("q6", 2), validate_only=True), 7, True
    yield _new(("q7", 9), validate_only=True), 7, False
    yield _new(("q7", 1)), 7, True


def told(response: Any) -> tuple[Any, ...]:
    results = getattr(response, "topics", None)
    if results is None:
        results = getattr(response, "responses", None) or response.results
    codes = sorted((one.name, one.error_code) for one in results)
    return codes, response.throttle_time_ms > 0
