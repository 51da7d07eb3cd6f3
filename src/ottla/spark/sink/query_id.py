"""The id of a streaming query, for a driver that has not heard it from a task: when a query is
stopped, perhaps no task has finished.

Spark stores it in the checkpoint, or this process has committed a batch of the query before.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from urllib.parse import unquote, urlsplit

log = logging.getLogger("ottla.spark")

_seen: dict[str, str] = {}
"""By checkpoint. Spark usually uses one process for many commits."""


def remember(checkpoint: str, query: str) -> None:
    _seen[checkpoint] = query


def query_of(checkpoint: str) -> str | None:
    """Return the id; None if it is unknown: Java file systems are not read here."""
    place = urlsplit(checkpoint)
    if checkpoint in _seen or place.scheme not in ("", "file"):
        return _seen.get(checkpoint)
    path = Path(unquote(place.path) if place.scheme else checkpoint)
    try:
        return str(json.loads((path / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError) as error:
        log.warning(
            "the query's id cannot be read, so its open transactions are not aborted: %s", error
        )
        return None
