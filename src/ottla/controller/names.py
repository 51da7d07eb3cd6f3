"""Which names a topic may have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.metadata.changes import unified_name
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
"""The folder of a partition adds a dash and up to five digits: 255 is what file systems allow."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Why this cannot be a topic's name; None if it can."""
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
    """`INVALID_TOPIC_EXCEPTION` if no topic may be called so."""
    if (problem := name_problem(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_no_collision(name: str, image: MetadataImage, also: Mapping[str, str]) -> None:
    """Refuse a name that differs from a topic's only in '.' against '_'. `also` are names that the
    same request creates, under their unified form."""
    unified = unified_name(name)
    if unified is None:
        return
    existing = min(image.names_unified.get(unified, ()), default=also.get(unified))
    if existing is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {existing}",
        )
