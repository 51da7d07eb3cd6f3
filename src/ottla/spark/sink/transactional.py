"""A producer with transactions that live as long as the brokers allow."""

from __future__ import annotations

import logging
from typing import Final

from ottla.client.errors import TransactionError
from ottla.client.network.cluster import Cluster
from ottla.client.producer.producer import Producer
from ottla.client.settings.producer import ProducerOptions
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.sink.options import SinkOptions

log = logging.getLogger("ottla.spark")

ROWS_TIMEOUT_MS: Final = 15 * 60_000
"""From the first row of a task to the commit of all; brokers allow this much by default."""
DECISION_TIMEOUT_MS: Final = 60_000
NOTHING: Final[ProducerOptions] = {}
TIMEOUT_MIN_MS: Final = 100

_allowed_ms: dict[str, int] = {}
"""By cluster: the timeout that its brokers allow, once known."""


async def transactional_producer(
    cluster: Cluster,
    options: SinkOptions,
    transactional_id: str,
    timeout_ms: int,
    own: ProducerOptions | None = None,
) -> Producer:
    """Return a producer with initialized transactions; an earlier one of this id is fenced."""
    where = options.given["kafka.bootstrap.servers"]
    if not options.timeout_is_given:
        timeout_ms = min(timeout_ms, _allowed_ms.get(where, timeout_ms))
    while True:
        settings: ProducerOptions = {
            "transaction_timeout_ms": timeout_ms,
            **options.producer_options,
            **(own or NOTHING),
            "transactional_id": transactional_id,
        }
        producer = Producer.over(cluster, **settings)
        await producer.start()
        try:
            await producer.init_transactions()
            return producer
        except BaseException as error:
            await producer.close()
            lower_ms = timeout_ms // 2
            if not _is_too_long(error) or options.timeout_is_given or lower_ms < TIMEOUT_MIN_MS:
                raise
            log.info(
                "the broker allows no transaction timeout of %s ms: trying %s ms",
                timeout_ms,
                lower_ms,
            )
            timeout_ms = _allowed_ms[where] = lower_ms


def _is_too_long(error: BaseException) -> bool:
    cause = getattr(error, "cause", None) if isinstance(error, TransactionError) else error
    return isinstance(cause, KafkaError) and cause.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
