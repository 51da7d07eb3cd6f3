"""One node: the page to read first. It builds every room and says in which order they open.

    disks locked -> metadata log replayed -> partition logs loaded -> listeners opened
    -> this broker registered in the metadata -> ready

and closes them the other way round.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.registration import NOT_CLEAN, Identity, registration_request
from ottla.client.peers import ConnectedPeers
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.producer_ids import allocate_block
from ottla.coordinator.service import Coordinators
from ottla.logs import get_logger
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.log import MetadataLog
from ottla.metadata.resources import CLUSTER_DEFAULT, ResourceType
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.schema import Message
from ottla.protocol.uuids import random_uuid
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.fetch_sessions import FetchSessionCache
from ottla.server.server import Server
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.runtime.os_runtime import OsRuntime
    from ottla.runtime.runtime import Runtime
    from ottla.storage.log import Log

log = get_logger("ottla.node")

FETCH_SESSION_EVICTION_MS: Final = 120_000


class Node:
    """Build it in a running loop, then `await node.start()`, and `await node.stop()` in the end."""

    def __init__(self, runtime: Runtime, config: BrokerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.node_id: int = config["node.id"]
        self.fetch_sessions = FetchSessionCache(
            config["max.incremental.fetch.session.cache.slots"],
            FETCH_SESSION_EVICTION_MS,
            runtime.random,
        )
        self.fetch_bytes_max: int = config["fetch.max.bytes"]
        self.endpoints: tuple[Endpoint, ...] = ()
        """Where clients are told to find this broker, by listener."""
        self.addresses: list[tuple[str, int]] = []
        """Where it listens: host as configured, and the port that was really opened."""
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Resolved with the reason when the node can no longer do its work and has to stop."""
        self._config_from_file = config
        self.log_manager = LogManager(runtime, config, on_dir_failed=self._dir_failed)
        self.metadata: MetadataLog
        self.controller: Controller
        self.replicas: ReplicaManager
        self.coordinators: Coordinators
        self.server = Server(self)

    @property
    def cluster_id(self) -> str:
        return self.log_manager.cluster_id

    def endpoint_for(self, listener_name: str) -> Endpoint | None:
        """The address of this broker for clients that came in by this listener."""
        return next((e for e in self.endpoints if e.name == listener_name), None)

    # --- opening --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open everything; what was opened is closed again if a later step fails."""
        await self.log_manager.open()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self.metadata = await MetadataLog.open(
            self.runtime,
            self.config.metadata_log_dir,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            config=self.config,
            clean=self.log_manager.was_clean(self.config.metadata_log_dir),
            on_failure=self._metadata_failed,
        )
        image = self.metadata.image
        self._take_dynamic_config(image)
        self.controller = Controller(self.metadata, self.config, self.runtime)
        self.replicas = ReplicaManager(self.runtime, self.config, self.log_manager, self.node_id)
        self.coordinators = Coordinators(
            self.runtime,
            self.replicas,
            self.config,
            node_id=self.node_id,
            ask=self._ask_controller,
            peers=ConnectedPeers(self.runtime),
            broker_epoch=lambda: -1,
        )
        await self.log_manager.load(lambda topic: self.replicas.topic_config(topic, image))
        self.log_manager.set_aside_strays(lambda log: _is_known(log, image))
        self.endpoints = self._listen()
        directories = self.log_manager.directory_ids()
        clean = all(log_dir.was_clean for log_dir in self.log_manager.dirs)
        before = image.brokers.get(self.node_id)
        identity = Identity(
            self.node_id,
            self.cluster_id,
            random_uuid(self.runtime.random),
            self.endpoints,
            self.config["broker.rack"],
            directories,
            previous_epoch=before.epoch if clean and before is not None else NOT_CLEAN,
        )
        await self.controller.register_broker(registration_request(identity, directories))
        self.replicas.report_folders = self._note_folders
        self.replicas.load(self.metadata.image)
        self.coordinators.metadata_changed(MetadataDelta(), self.metadata.image)
        self.metadata.subscribe(self._metadata_changed)
        self.log_manager.start_background_work(self.replicas.high_watermarks)
        self.server.start_serving()

    def _listen(self) -> tuple[Endpoint, ...]:
        ports = {}
        for listener in self.config.listeners:
            ports[listener.name] = self.server.listen(listener)[1]
            self.addresses.append((listener.host, ports[listener.name]))
        return tuple(
            Endpoint(
                advertised.name,
                advertised.host or self.runtime.network.host_name(),
                advertised.port or ports[advertised.name],
            )
            for advertised in self.config.advertised_listeners
        )

    async def _ask_controller(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        match request:
            case CreateTopicsRequest():
                return await self.controller.create_topics(request)
            case AllocateProducerIdsRequest():
                block = await self.metadata.write(partial(allocate_block, broker_id=self.node_id))
                return AllocateProducerIdsResponse(
                    producer_id_start=block.start, producer_id_len=len(block)
                )
        raise AssertionError(f"the controller does not serve {type(request).__name__}")

    # --- changing -------------------------------------------------------------------------------

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.brokers_reconfigured:
            self._take_dynamic_config(image)
            self.controller.config = self.config
            self.replicas.configure_broker(self.config, image)
            self.log_manager.configure(self.config)
            self.server.configure(self.config)
        self.replicas.apply(delta, image)
        self.coordinators.metadata_changed(delta, image)

    def _take_dynamic_config(self, image: MetadataImage) -> None:
        self.config = self._config_from_file.with_dynamic(
            image.config(CLUSTER_DEFAULT),
            image.config((ResourceType.BROKER, str(self.node_id))),
        )
        for problem in self.config.ignored:
            log.warning("a stored setting cannot be used", problem=str(problem))
        self.fetch_bytes_max = self.config["fetch.max.bytes"]

    def _note_folders(self, chosen: dict[tuple[bytes, int], bytes]) -> None:
        self.runtime.spawn(self.controller.assign_directories(chosen), name="note-folders")

    def _dir_failed(self, directory: str, cause: BaseException) -> None:
        """A log dir went offline at run time. The node goes on without it, while it can."""
        self.replicas.dir_failed(directory)
        if directory == self.config.metadata_log_dir or not self.log_manager.has_online_dirs:
            self._fail(
                RuntimeError(f"{directory}, which the node cannot do without, failed: {cause}")
            )
        else:
            self.runtime.spawn(
                self.controller.directories_changed(self.log_manager.directory_ids()),
                name="report-failed-dir",
            )

    def _metadata_failed(self, cause: Exception) -> None:
        # Offline, so that the folder is not marked as closed properly.
        self.log_manager.fail_dir(self.config.metadata_log_dir, cause)
        self._fail(cause)

    def file_failed(self, path: str, cause: OSError) -> None:
        """A segment could not be read while it was being sent."""
        self.log_manager.fail_dir(os.path.dirname(os.path.dirname(path)), cause)

    def _fail(self, reason: Exception) -> None:
        if not self.failure.done():
            log.error("the node has to stop", reason=str(reason))
            self.failure.set_result(reason)

    # --- closing --------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop serving, then make everything durable and mark the shutdown as clean."""
        self.server.close()
        if hasattr(self, "coordinators"):
            self.coordinators.close()
        if hasattr(self, "metadata"):
            await self.metadata.close()
        await self.log_manager.close()


def _is_known(log: Log, image: MetadataImage) -> bool:
    """Whether a log on disk belongs to a topic that exists, and not to one of the same name that
    was deleted while its files were still there."""
    topic = image.topics.get(log.topic)
    return topic is not None and log.topic_id in (None, topic.id)


def run(
    config: BrokerConfig,
    started: Callable[[Node], object] = lambda node: None,
) -> int:
    """Serve until Ctrl-C or SIGTERM; the exit code. `started` is called when clients are served."""
    from ottla.runtime.os_runtime import run as run_on_loop

    return run_on_loop(lambda runtime: _serve(runtime, config, started))


async def _serve(
    runtime: OsRuntime, config: BrokerConfig, started: Callable[[Node], object]
) -> int:
    stop_asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask_to_stop() -> None:
        if not stop_asked.done():
            stop_asked.set_result(None)

    runtime.on_stop_signal(ask_to_stop)
    for warning in config.unused_warnings():
        log.warning(warning)
    node = Node(runtime, config)
    await node.start()
    started(node)
    endings: list[asyncio.Future[Any]] = [stop_asked, node.failure]
    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
    await node.stop()
    return 1 if node.failure.done() else 0
