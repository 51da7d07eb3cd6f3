"""The topics that hold the state of coordinators: created when a client first needs them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.controller.topics.auto_topics import auto_create_request
from ottla.broker.coordinator.controller_calls import ASK_TIMEOUT_MS, AskController
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.coordinator")


class InternalTopics:
    def __init__(self, runtime: Runtime, config: BrokerConfig, ask: AskController) -> None:
        self._runtime = runtime
        self._config = config
        self._ask = ask
        self._image = EMPTY_IMAGE
        self._wanted: dict[str, asyncio.Future[None]] = {}
        """Topics that are being created, until they are in the image."""

    def metadata_changed(self, image: MetadataImage) -> None:
        self._image = image
        for name, wanted in self._wanted.items():
            if name in image.topics and not wanted.done():
                wanted.set_result(None)

    async def ensure(self, name: str) -> None:
        """Return when the topic is in the image of this node; raises COORDINATOR_NOT_AVAILABLE."""
        if name in self._image.topics:
            return
        if name not in self._wanted:
            self._wanted[name] = asyncio.get_running_loop().create_future()
            self._runtime.spawn(self._create(name), name=f"create {name}")
        await asyncio.shield(self._wanted[name])

    async def _create(self, name: str) -> None:
        wanted = self._wanted[name]
        late = self._runtime.call_later(ASK_TIMEOUT_MS / 1000, _give_up, wanted, "no answer yet")
        try:
            request = auto_create_request([name], self._config, self._brokers_expected)
            response = await self._ask(request, timeout_ms=ASK_TIMEOUT_MS)
            error = ErrorCode.of(response.topics[0].error_code)
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                message = response.topics[0].error_message or error.message
                log.error("cannot create an internal topic", topic=name, error=message)
                _give_up(wanted, message)
            await asyncio.wait([wanted])
        except KafkaError as error:
            _give_up(wanted, str(error))
        finally:
            # whatever went wrong, no caller is left waiting
            _give_up(wanted, f"{name} was not created")
            late.cancel()
            del self._wanted[name]

    @property
    def _brokers_expected(self) -> int:
        """Return how many brokers the cluster is expected to have. While a cluster starts, some
        brokers are not registered yet: a topic created with the registered ones only would have too
        few replicas for good."""
        config = self._config
        controllers = len(config.voters) or len(config.bootstrap_controllers)
        return max(len(self._image.brokers), controllers)


def _give_up(wanted: asyncio.Future[None], reason: str) -> None:
    if not wanted.done():
        wanted.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason))
        wanted.exception()  # mark it as retrieved, as there may be no waiting caller
