"""The identity of an idempotent producer: gets a producer id, and begins epochs after gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.client.errors import BadSetting
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.producer.sending.identity import NOBODY, Identity
from ottla.client.settings.base import INT32_MAX
from ottla.client.settings.producer import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

EPOCH_MAX = (1 << 15) - 1


class IdempotentIdentity:
    """Requests a producer id when the first batch is to be sent.

    A new epoch is begun without a request (KIP-360): for an idempotent producer brokers only
    require that epochs rise. When the epochs are used up, a new id is requested.
    """

    is_transactional: Final = False
    transactional_id: Final = None
    produce_version_max: Final = None

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        *,
        wake: Callable[[], None],
        give_up: Callable[[Exception], None],
    ) -> None:
        """`give_up` fails all waiting batches; it is called when no id can be obtained."""
        self._cluster = cluster
        self._is_asked_for = settings.enable_idempotence is True
        self._wake = wake
        self._give_up = give_up
        self.identity = NOBODY
        self.is_plain = False
        """True if the broker has no producer ids: batches are sent without one, one at a time to
        keep their order."""
        self.trouble: Exception | None = None
        """Why there is no id yet."""
        self._asking: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        if self.identity.known or self.is_plain:
            return True
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="producer-id")
        return False

    def start_anew(self) -> None:
        """Begin the next epoch, with sequence numbers from 0."""
        producer_id, epoch = self.identity.producer_id, self.identity.epoch
        self.identity = NOBODY if epoch == EPOCH_MAX else Identity(producer_id, epoch + 1)

    def admits(self, partition: TopicPartition) -> bool:
        return True

    def check_send(self) -> None:
        pass

    def delivered(self, partition: TopicPartition) -> None:
        pass

    def failed(self, partition: TopicPartition, error: Exception) -> None:
        pass

    async def close(self, within_ms: float) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        """Ask until there is a response: waiting batches have their own deadline."""
        pauses = self._cluster.pauses()
        while True:
            try:
                self.identity = await self._attempt()
                self.trouble = None
                break
            except Exception as error:
                self.trouble = error
                if not may_pass(error):
                    self._give_up(error)
                    return
            await asyncio.sleep(pauses.next_s(self._cluster.runtime.random))
        self._wake()

    async def _attempt(self) -> Identity:
        from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

        connection = await self._cluster.any_broker()
        if not connection.versions.supports(ApiKey.INIT_PRODUCER_ID):
            if self._is_asked_for:
                raise BadSetting(
                    "enable_idempotence",
                    "the broker gives out no producer ids; leave the setting out, or set it False",
                )
            self.is_plain = True
            return NOBODY
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        response = await connection.request(request)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        return Identity(response.producer_id, response.producer_epoch)
