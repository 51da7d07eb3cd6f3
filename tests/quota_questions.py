"""Requests about client quotas, in an order in which later ones see what earlier ones changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

EXACT, DEFAULT, ANY = 0, 1, 2
Parts = list[tuple[str, str | None]]
Ops = list[tuple[str, float | None]]

USER: Parts = [("user", "alice")]
BOTH: Parts = [("client-id", "app"), ("user", "alice")]
CLIENT: Parts = [("client-id", "app")]
ADDRESS: Parts = [("ip", "10.0.0.1")]
RATE = "producer_byte_rate"


def change(*entries: tuple[Parts, Ops], validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops
                ],
            )
            for parts, ops in entries
        ],
        validate_only=validate_only,
    )


def find(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, match, name in components
        ],
        strict=strict,
    )


CHANGES = [
    change(),
    change(([], [(RATE, 1.0)])),
    change((USER, [])),
    change((USER, [(RATE, 1_000.0), ("consumer_byte_rate", 2_000.0)])),
    change((USER, [(RATE, 7.0)]), validate_only=True),
    change((BOTH, [("request_percentage", 12.5), ("controller_mutation_rate", 0.25)])),
    change(
        ([("user", None)], [(RATE, 3.0)]), ([("client-id", None), ("user", None)], [(RATE, 4.0)])
    ),
    change(([("client-id", None), ("user", "alice")], [(RATE, 5.0)])),
    change((CLIENT, [(RATE, 6.0)]), ([("client-id", None)], [(RATE, 7.0)])),
    change((ADDRESS, [("connection_creation_rate", 8.0)])),
    change(([("ip", None)], [("connection_creation_rate", 9.0)])),
    change(([("ip", "::1")], [("connection_creation_rate", 9.0)])),
    # refused
    change((ADDRESS, [(RATE, 8.0)]), (USER, [("connection_creation_rate", 8.0)])),
    change(([("ip", "no.such.host.invalid")], [("connection_creation_rate", 8.0)])),
    change(([("ip", "10.0.0.1"), ("user", "alice")], [("connection_creation_rate", 8.0)])),
    change(([("ip", "10.0.0.1"), ("client-id", "a")], [(RATE, 8.0)])),
    change(([("group", "g")], [(RATE, 8.0)]), ([("", "g")], [(RATE, 8.0)])),
    change(([("user", "")], [(RATE, 8.0)]), ([("client-id", "")], [(RATE, 8.0)])),
    change(([("ip", "")], [("connection_creation_rate", 8.0)])),
    change((USER, [("no.such.key", 8.0)]), (CLIENT, [(RATE, 0.0)])),
    change((USER, [(RATE, -1.0)]), (CLIENT, [("request_percentage", 0.0)])),
    change((USER, [(RATE, 1.5)]), (CLIENT, [(RATE, 1e19)])),
    change((USER, [(RATE, 1.0000001)]), (CLIENT, [(RATE, 9.0), ("consumer_byte_rate", 0.5)])),
    change((USER, [(RATE, 9.2233720368547758e18)]), (CLIENT, [(RATE, float("inf"))])),
    change((ADDRESS, [("connection_creation_rate", 2147483648.0)])),
    change((ADDRESS, [("connection_creation_rate", 1.5)])),
    change((CLIENT, [("request_percentage", float("inf"))])),
    change(([("user", "bob")], [(RATE, 1.0), (RATE, 2.0)])),
    change(([("user", "bob")], [(RATE, 1.0)]), ([("user", "bob")], [(RATE, 2.0)])),
    change((BOTH, [(RATE, 1.0)]), (list(reversed(BOTH)), [(RATE, 2.0)])),
    change(([("user", "x"), ("user", "eve")], [(RATE, 1.0)])),
    change(([("user", None)], [(RATE, 1.0), (RATE, 2.0)])),
    # removed
    change((USER, [("no.such.key", None), ("request_percentage", None)])),
    change((USER, [("consumer_byte_rate", None)]), (CLIENT, [(RATE, None)])),
    change(([("user", "nobody")], [(RATE, None)])),
    change(([("ip", "10.0.0.1")], [("connection_creation_rate", None)])),
]

QUESTIONS = [
    find(),
    find(strict=True),
    *(
        find((kind, match, "alice" if match == EXACT else None), strict=strict)
        for kind in ("user", "client-id", "ip")
        for match in (EXACT, DEFAULT, ANY)
        for strict in (False, True)
    ),
    find(("user", EXACT, "alice"), ("client-id", EXACT, "app")),
    find(("user", EXACT, "alice"), ("client-id", ANY, None), strict=True),
    find(("user", ANY, None), ("client-id", ANY, None)),
    find(("user", DEFAULT, None), ("client-id", DEFAULT, None), strict=True),
    find(("ip", EXACT, "10.0.0.1")),
    # refused
    find(("", ANY, None)),
    find(("group", ANY, None)),
    find(("user", EXACT, None)),
    find(("user", DEFAULT, "alice")),
    find(("user", ANY, "alice")),
    find(("user", 3, None)),
    find(("user", -1, "alice")),
    find(("user", ANY, None), ("user", EXACT, "alice")),
    find(("user", EXACT, "alice"), ("ip", ANY, None)),
    find(("client-id", EXACT, "alice"), ("ip", ANY, None)),
]


def told(response: Any) -> tuple[Any, ...]:
    """What a response says, in an order that does not depend on that of Kafka's hash tables."""
    entries = response.entries
    return (
        getattr(response, "error_code", None),
        getattr(response, "error_message", None),
        response.throttle_time_ms,
        None if entries is None else sorted(map(_entry, entries), key=repr),
    )


def _entry(entry: Any) -> tuple[Any, ...]:
    entity = sorted((part.entity_type, part.entity_name) for part in entry.entity)
    if hasattr(entry, "values"):
        return entity, sorted((value.key, value.value) for value in entry.values)
    return entity, entry.error_code, entry.error_message


def requests() -> Iterator[AlterClientQuotasRequest | DescribeClientQuotasRequest]:
    for each in CHANGES:
        yield each
        yield find()
    yield from QUESTIONS
