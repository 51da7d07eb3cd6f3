"""Partitions as `--topic` names them: `orders` for all, `orders:0,2-4` for some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.values import TopicPartition

Scope = dict[str, set[int] | None]
"""Topic -> its partitions; None for all."""


def parse_scope(texts: Iterable[str], option: str = "--topic") -> Scope:
    scope: Scope = {}
    for text in texts:
        name, colon, partitions = text.partition(":")
        if not name or (colon and not partitions):
            raise _wrong(text, option)
        if not colon:
            scope[name] = None
            continue
        chosen = {index for part in partitions.split(",") for index in _range(part, text, option)}
        known = scope.get(name, set())
        scope[name] = None if known is None else known | chosen
    return scope


def _range(part: str, text: str, option: str) -> range:
    low, dash, high = part.strip().partition("-")
    if not _is_index(low) or (dash and not _is_index(high)):
        raise _wrong(text, option)
    return range(int(low), int(high if dash else low) + 1)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _wrong(text: str, option: str) -> typer.BadParameter:
    return typer.BadParameter(
        f"{text!r} names no partitions; write TOPIC, TOPIC:0 or TOPIC:0,2-4", param_hint=option
    )


def covers(scope: Mapping[str, set[int] | None], one: TopicPartition) -> bool:
    if one.topic not in scope:
        return False
    chosen = scope[one.topic]
    return chosen is None or one.partition in chosen


async def partitions_of(admin: Admin, scope: Scope) -> list[TopicPartition]:
    """Return every partition in the scope; raise `TopicMissing` if one does not exist."""
    from ottla.client.errors import TopicMissing
    from ottla.client.values import TopicPartition

    found: list[TopicPartition] = []
    for name, chosen in scope.items():
        there = {partition.index for partition in (await admin.describe_topic(name)).partitions}
        if chosen is not None and (missing := sorted(chosen - there)):
            raise TopicMissing(name, missing[0])
        found += [TopicPartition(name, index) for index in (there if chosen is None else chosen)]
    return sorted(found)
