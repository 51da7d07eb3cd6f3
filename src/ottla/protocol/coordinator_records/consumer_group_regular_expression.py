"""ConsumerGroupRegularExpression, record type 16."""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int64, string


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions=(0, 0)):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions=(0, 0), flexible=0):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
