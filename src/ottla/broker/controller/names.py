"""The rules for topic names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.broker.metadata.changes import unified_name
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
"""The folder of a partition adds a dash and up to five digits: file systems allow 255
characters."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Return why this cannot be a topic name; None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """Raise `INVALID_TOPIC_EXCEPTION` if the name is invalid."""
    if (problem := name_problem(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_no_collision(name: str, image: MetadataImage, also: Mapping[str, str]) -> None:
    """Refuse a name that differs from that of another topic only in '.' against '_'. `also` are the
    names that the same request creates, by their unified form."""
    unified = unified_name(name)
    if unified is None:
        return
    existing = min(image.names_unified.get(unified, ()), default=also.get(unified))
    if existing is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {existing}",
        )
