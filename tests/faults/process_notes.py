"""What the processes of the exactly-once story tell, and how they deal with errors.

Each writes JSON lines to a file of its own, one write a line: what stands there was said, however
the process ended.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaException

FENCED = 3
GIVEN_UP = 4
PATIENCE_S = 15.0
# librdkafka may begin anew with its bootstrap servers while the broker restarts, and then waits for
# ever for a group coordinator that it has itself let go (2.16, with Apache Kafka as with us).
KEEP_BROKERS = {"metadata.recovery.strategy": "none", "reconnect.backoff.max.ms": 500}

T = TypeVar("T")


class Notes:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def tell(self, what: str, value: Any = True, **more: Any) -> None:
        line = json.dumps({"what": what, "value": value, **more, "at": round(time.time(), 3)})
        os.write(self._file, line.encode() + b"\n")


def read_notes(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    # A process that is killed within a write leaves a line without its end.
    whole = path.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def patiently(call: Callable[[], T]) -> T:
    """Again, while the client says that this is safe and may help."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def ended_by(notes: Notes, failure: KafkaException) -> int:
    """The exit code: shut out for good, or an error after which a fresh start is the answer."""
    error = failure.args[0]
    fenced = error.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    notes.tell("fenced" if fenced else "given up", f"{error.name()}: {error.str()}")
    return FENCED if fenced else GIVEN_UP
