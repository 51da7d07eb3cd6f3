"""Reports what was not delivered when an application leaves its producer by an exception."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.errors import ProducerClosed
from ottla.client.producer.batching.batch import ProducerBatch

if TYPE_CHECKING:
    from ottla.client.producer.engine import Engine

log = logging.getLogger("ottla.client")


class Losses:
    """Created before the producer is closed, to record which batches have no outcome."""

    def __init__(self, engine: Engine) -> None:
        self._failures = engine.failures
        self._before = engine.failures.take_unseen()
        self._waiting = list(engine.accumulator.incomplete)

    def tell(self, error: BaseException) -> None:
        """Add a note to the error, and log it: the error may never be printed."""
        self._failures.forget()
        leaves = [leaf for batch in self._waiting for leaf in batch.leaves()]
        failed = [*self._before, *(leaf for leaf in leaves if leaf.error is not None)]
        if failed:
            add_loss(error, _summary_of(failed))


def add_loss(error: BaseException, text: str) -> None:
    error.add_note(text)
    log.warning("%s", text)


def _summary_of(failed: list[ProducerBatch]) -> str:
    count = sum(batch.count for batch in failed)
    unclear = sum(batch.count for batch in failed if _may_have_arrived(batch))
    doubt = f" ({unclear} may have arrived)" if unclear else ""
    return f"{records(count)} not delivered{doubt}: {failed[0].error}"


def records(count: int) -> str:
    return "1 record was" if count == 1 else f"{count} records were"


def _may_have_arrived(batch: ProducerBatch) -> bool:
    return isinstance(batch.error, ProducerClosed) and batch.error.may_have_arrived
