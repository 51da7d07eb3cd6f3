"""Shows what the client logs while a command runs, as single lines on stderr.

Until a broker has answered, warnings are kept back: if none answers the command ends with an error
that says the same. Messages that something takes long are shown at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.cli.output import print_note
from ottla.client.network.silence import IS_SLOW

KEPT_MAX = 100


class ClientWarnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: list[str] | None = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if self._kept is None or getattr(record, IS_SLOW, False):
            print_note(f"ottla: {line}")
        elif len(self._kept) < KEPT_MAX:
            self._kept.append(line)

    def connected(self) -> None:
        kept, self._kept = self._kept, None
        for line in kept or ():
            print_note(f"ottla: {line}")


@contextmanager
def showing_client_warnings() -> Iterator[ClientWarnings]:
    log = logging.getLogger("ottla.client")
    handler, propagates = ClientWarnings(), log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
