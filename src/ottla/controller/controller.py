"""The controller of a quorum of one: has the decisions of this room committed and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ottla.config.broker import BrokerConfig
from ottla.controller.alter_configs import ConfigChange, Outcome, alter_configs
from ottla.controller.auto_topics import auto_create_request
from ottla.controller.brokers import (
    Registration,
    assign_directories,
    change_directories,
    register_broker,
)
from ottla.controller.config_rules import ConfigRules
from ottla.controller.create_partitions import create_partitions
from ottla.controller.create_topics import create_topics
from ottla.controller.delete_topics import delete_topics
from ottla.controller.producer_ids import allocate_block
from ottla.metadata.image import Endpoint
from ottla.metadata.log import MetadataLog
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.uuids import random_uuid
from ottla.runtime.runtime import Runtime


class Controller:
    """Every method returns once its change is durable and published to all subscribers.

    A `KafkaError` out of a method means that nothing was changed: the whole request was refused, or
    the metadata log failed.
    """

    def __init__(self, metadata: MetadataLog, config: BrokerConfig, runtime: Runtime) -> None:
        self.config = config
        """The settings in force; whoever applies dynamic ones puts the new settings here."""
        self.node_id = config.node_id
        self._metadata = metadata
        self._random = runtime.random
        self._producer_ids = iter(range(0))
        self._producer_ids_lock = asyncio.Lock()

    # Topics

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._metadata.write(
            lambda image: create_topics(image, request, self.config, self._random)
        )

    async def auto_create_topics(self, names: Iterable[str]) -> CreateTopicsResponse:
        """Topics with default settings; the internal ones as their coordinators need them."""
        broker_count = len(self._metadata.image.brokers)
        return await self.create_topics(auto_create_request(names, self.config, broker_count))

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return await self._metadata.write(lambda image: delete_topics(image, request))

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return await self._metadata.write(
            lambda image: create_partitions(image, request, self._random)
        )

    # Configs

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool
    ) -> list[Outcome]:
        """For each change its error, or None where it was made."""
        rules = ConfigRules(self.node_id, self.config)
        return await self._metadata.write(
            lambda image: alter_configs(image, changes, rules, validate_only=validate_only)
        )

    # Brokers

    async def register_broker(
        self,
        endpoints: Sequence[Endpoint],
        *,
        rack: str | None,
        directories: Sequence[bytes],
        clean: bool,
    ) -> int:
        """Take this broker in; its epoch. `clean` says that its last shutdown was."""
        incarnation = random_uuid(self._random)
        registration = Registration(self.node_id, incarnation, endpoints, rack, directories)
        decide = partial(register_broker, registration=registration, clean=clean)
        # On a node with many partitions a crash renews more leader epochs than one batch holds;
        # should it happen again half way, the next start renews them all.
        return await self._metadata.write(decide, divisible=True)

    async def directories_changed(self, online: Sequence[bytes]) -> None:
        """This broker's working log folders are now `online` (ids, at least one)."""
        decide = partial(change_directories, broker_id=self.node_id, online=online)
        await self._metadata.write(decide, divisible=True)

    async def assign_directories(self, chosen: Mapping[tuple[bytes, int], bytes]) -> None:
        """Note the log folder of replicas on this broker: (topic id, partition) -> folder id."""
        decide = partial(assign_directories, broker_id=self.node_id, chosen=chosen)
        await self._metadata.write(decide, divisible=True)

    # Producers

    async def next_producer_id(self) -> int:
        """An id that no producer of this cluster ever had, also across restarts."""
        async with self._producer_ids_lock:
            for producer_id in self._producer_ids:
                return producer_id
            block = await self._metadata.write(lambda image: allocate_block(image, self.node_id))
            self._producer_ids = iter(block)
            return next(self._producer_ids)
