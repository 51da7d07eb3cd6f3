"""The id of a streaming query, for a driver to whom no task has told it: none may have come to its
end when a query is stopped.

Spark has it in the checkpoint, and this process may have committed a batch of the query before.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from urllib.parse import unquote, urlsplit

log = logging.getLogger("ottla.spark")

_seen: dict[str, str] = {}
"""By checkpoint. Spark uses one process for many commits, mostly."""


def remember(checkpoint: str, query: str) -> None:
    _seen[checkpoint] = query


def query_of(checkpoint: str) -> str | None:
    """None where it cannot be known: what a Java file system holds is not read here."""
    place = urlsplit(checkpoint)
    if checkpoint in _seen or place.scheme not in ("", "file"):
        return _seen.get(checkpoint)
    path = Path(unquote(place.path) if place.scheme else checkpoint)
    try:
        return str(json.loads((path / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError) as error:
        log.warning("the id of the query is not known, its open transactions are left: %s", error)
        return None
