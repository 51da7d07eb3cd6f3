"""Checks the arguments of `send` before any of them is stored."""

from __future__ import annotations

from typing import Any

TOPIC_LENGTH_MAX = 249
"""Kafka's limit: no topic has a longer name."""
HEADERS_FORM = "headers are pairs of a name and bytes, as in [('trace', b'7f')], or a dict of them"


def check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"the topic is {type(topic).__name__} ({topic!r}), not str")
    if not topic:
        raise ValueError("the topic is an empty string; say where the record is to go")
    if len(topic) > TOPIC_LENGTH_MAX or not topic.isascii():
        raise ValueError(
            f"no topic can be named {topic!r}: names have up to {TOPIC_LENGTH_MAX} characters of "
            "a-z, A-Z, 0-9, '.', '_' and '-'"
        )


def check_partition(partition: Any) -> None:
    """Accept any integer type, such as those of numpy."""
    if not hasattr(partition, "__index__"):
        raise TypeError(f"partition is {partition!r}, not a number: give an int, or None for any")


def check_callback(on_delivery: Any) -> None:
    if not callable(on_delivery):
        raise TypeError(
            f"on_delivery is {on_delivery!r}, which cannot be called: "
            "give a function of (metadata, error)"
        )


def bad_headers(found: object) -> TypeError:
    return TypeError(f"{HEADERS_FORM}; this is neither: {found!r}")
