"""The items that dumping a file yields."""

from __future__ import annotations

from typing import Any, TypeAlias

Item: TypeAlias = dict[str, Any]


def problem(message: str, **where: int) -> Item:
    return {"type": "problem", "message": message, **where}
