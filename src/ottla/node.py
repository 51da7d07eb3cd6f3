"""One node: the page to read first. It builds every room and says in which order they open.

    disks locked -> controller listeners opened -> quorum joined -> metadata caught up
    -> partition logs loaded -> listeners opened -> this broker registered -> unfenced -> ready

and closes them the other way round, after other brokers have taken over what was led here.

`process.roles` says which of them there are: a node is a controller (takes part in the quorum of
the metadata log, and may lead it), a broker (keeps partitions and serves clients), or both.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.controller_link import ControllerLink
from ottla.broker.controller_requests import ControllerRequests
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.registration import Identity, common_epoch
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.controller.controller import Controller
from ottla.coordinator.service import Coordinators
from ottla.logs import get_logger
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.formatting import FirstVoter, write_first_voters
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.log import MetadataLog
from ottla.metadata.resources import CLUSTER_DEFAULT, ResourceType
from ottla.peers.late import LatePeers
from ottla.protocol.uuids import random_uuid
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.dispatch import BROKERS, CONTROLLERS
from ottla.server.fetch_sessions import FetchSessionCache
from ottla.server.local import serve_here
from ottla.server.replica_sessions import ReplicaSessionCache
from ottla.server.server import Server
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.config.listeners import Listener
    from ottla.peers.peers import Peers
    from ottla.runtime.os_runtime import OsRuntime
    from ottla.runtime.runtime import Runtime
    from ottla.storage.log import Log

log = get_logger("ottla.node")

FETCH_SESSION_EVICTION_MS: Final = 120_000
QUORUM_SILENCE_S: Final = 10.0
"""So often a node that cannot start yet says what it waits for."""
LEAVE_S_MAX: Final = 5.0
"""So long a broker that stops waits for others to take over what it leads."""


class Node:
    """Build it in a running loop, then `await node.start()`, and `await node.stop()` in the end.

    Without the role of a controller `controller` is None; without that of a broker `lifecycle`,
    `requests`, `replicas` and `coordinators` are. What needs them is not served there.
    """

    def __init__(self, runtime: Runtime, config: BrokerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.node_id: int = config["node.id"]
        self.replica_sessions = ReplicaSessionCache(runtime.random)
        self.fetch_sessions = FetchSessionCache(
            config["max.incremental.fetch.session.cache.slots"],
            FETCH_SESSION_EVICTION_MS,
            runtime.random,
        )
        self.fetch_bytes_max: int = config["fetch.max.bytes"]
        self.endpoints: tuple[Endpoint, ...] = ()
        """Where clients are told to find this broker, by listener."""
        self.addresses: list[tuple[str, int]] = []
        """Where it listens for clients: host as configured, and the port that was really opened."""
        self.controller_endpoints: tuple[Endpoint, ...] = ()
        """Where other nodes are told to find this controller."""
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Resolved with the reason when the node can no longer do its work and has to stop."""
        self._config_from_file = config
        self._deserted: asyncio.Future[None] | None = None
        """While this broker leaves: done when no other is left to take over."""
        self.log_manager = LogManager(
            runtime,
            config,
            on_dir_failed=self._dir_failed,
            on_new_cluster=self._found_quorum,
        )
        self.peers: Peers = LatePeers(partial(_connected_peers, runtime))
        self.metadata: MetadataLog = None  # type: ignore[assignment]
        self.controller_link: ControllerLink = None  # type: ignore[assignment]
        self.controller: Controller = None  # type: ignore[assignment]
        self.lifecycle: Lifecycle = None  # type: ignore[assignment]
        self.requests: ControllerRequests = None  # type: ignore[assignment]
        self.replicas: ReplicaManager = None  # type: ignore[assignment]
        self.coordinators: Coordinators = None  # type: ignore[assignment]
        self.server = Server(self)

    @property
    def cluster_id(self) -> str:
        return self.log_manager.cluster_id

    @property
    def broker_epoch(self) -> int:
        """Of this broker's registration; -1 before it has one."""
        return -1 if self.lifecycle is None else self.lifecycle.broker_epoch

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
        await self._join_quorum()
        self._take_dynamic_config(self.metadata.image)
        self.metadata.subscribe(self._settings_changed)
        if self.config.is_broker:
            await self._start_broker()
        else:
            # There are none of partitions; what is in the folder beside them is looked after.
            config = TopicConfig.build(self.config, {})
            await self.log_manager.load(lambda topic: config)

    def _found_quorum(self, folder: str, directory_id: bytes) -> None:
        """Nobody has formatted the folder, and the only controller to ask is this one."""
        servers = self.config.bootstrap_controllers
        if servers:
            write_first_voters(
                self.runtime.disk,
                folder,
                [FirstVoter(self.node_id, directory_id, *servers[0])],
                listener=self.config["controller.listener.names"][0],
                now_ms=self.runtime.clock.wall_ms(),
            )

    async def _join_quorum(self) -> None:
        """Returns when the metadata here is that of the cluster. Controllers answer from the
        beginning: nobody can be elected before a majority of them does."""
        config = self.config
        self.controller_endpoints = self._listen(
            config.controller_listeners, config.advertised_controller_listeners, CONTROLLERS
        )
        self.metadata = await MetadataLog.open(
            self.runtime,
            config.metadata_log_dir,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            config=config,
            clean=self.log_manager.was_clean(config.metadata_log_dir),
            on_failure=self._metadata_failed,
            directory_id=self.log_manager.directory_id(config.metadata_log_dir),
            peers=self.peers,
            endpoints=self.controller_endpoints,
        )
        self.controller_link = ControllerLink(
            self.runtime,
            self.metadata,
            self.peers,
            partial(serve_here, self),
            timeout_ms=config["request.timeout.ms"],
        )
        if config.is_controller:
            self.controller = Controller(self.metadata, config, self.runtime)
            self.server.start_serving(CONTROLLERS)
            self._register_controller()
        await self._catch_up()

    async def _catch_up(self) -> None:
        """With the metadata, which takes a quorum of controllers; says so while there is none."""
        caught_up = asyncio.ensure_future(self.metadata.caught_up())
        try:
            while not (await asyncio.wait([caught_up], timeout=QUORUM_SILENCE_S))[0]:
                log.warning(
                    "waiting for a quorum of controllers; do enough of them run, are their "
                    "addresses right, and were all nodes formatted with this cluster id?",
                    cluster_id=self.cluster_id,
                    controllers=_controllers(self.config),
                )
            caught_up.result()
        finally:
            caught_up.cancel()

    def _register_controller(self) -> None:
        """In the background. A node without a listener for it has nobody who would look for it."""
        if self.controller_endpoints:
            from ottla.broker.controller_registration import register_controller

            incarnation_id = random_uuid(self.runtime.random)
            registration = register_controller(
                self.controller_link.ask, self.node_id, incarnation_id, self.controller_endpoints
            )
            self.runtime.spawn(registration, name="register-controller")

    async def _start_broker(self) -> None:
        ask = self.controller_link.ask
        self.requests = ControllerRequests(
            self.runtime, ask, self.metadata, self.config, lambda: self.broker_epoch
        )
        self.replicas = ReplicaManager(self.runtime, self.config, self.log_manager, self.node_id)
        self.coordinators = Coordinators(
            self.runtime,
            self.replicas,
            self.config,
            node_id=self.node_id,
            ask=ask,
            peers=self.peers,
            broker_epoch=lambda: self.broker_epoch,
        )
        image = self.metadata.image
        await self.log_manager.load(
            lambda topic: self.replicas.topic_config(topic, image),
            lambda log: _directory_of(log, image, self.node_id),
        )
        self.log_manager.set_aside_strays(lambda log: _belongs(log, image, self.node_id))
        self.endpoints = self._listen(
            self.config.listeners, self.config.advertised_listeners, BROKERS
        )
        self.lifecycle = Lifecycle(
            self.runtime, ask, self.metadata, self._identity(), self.config, self._fail
        )
        await self.lifecycle.register()
        self.replicas.report_folders = self.requests.assign_directories
        self.replicas.moves.confirm = self.requests.confirm_directory
        # Changes of ISRs hold up acknowledgements: they must not wait behind other requests.
        self.replicas.join(self.peers, partial(ask, lane="isr"), lambda: self.broker_epoch)
        self.replicas.load(self.metadata.image)
        self.coordinators.metadata_changed(MetadataDelta(), self.metadata.image)
        self.metadata.subscribe(self._metadata_changed)
        self.log_manager.start_background_work(self.replicas.high_watermarks)
        self.server.start_serving(BROKERS)
        await self.lifecycle.serve()

    def _identity(self) -> Identity:
        dirs = self.log_manager.dirs
        return Identity(
            self.node_id,
            self.cluster_id,
            random_uuid(self.runtime.random),
            self.endpoints,
            self.config["broker.rack"],
            self.log_manager.directory_ids(),
            common_epoch([log_dir.last_epoch for log_dir in dirs]),
        )

    def _listen(
        self, listeners: Iterable[Listener], advertised: Iterable[Listener], kind: str
    ) -> tuple[Endpoint, ...]:
        ports = {}
        for listener in listeners:
            ports[listener.name] = self.server.listen(listener, kind)[1]
            if kind == BROKERS:
                self.addresses.append((listener.host, ports[listener.name]))
        return tuple(
            Endpoint(
                told.name,
                told.host or self.runtime.network.host_name(),
                told.port or ports[told.name],
            )
            for told in advertised
        )

    # --- changing -------------------------------------------------------------------------------

    def _settings_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not delta.brokers_reconfigured:
            return
        self._take_dynamic_config(image)
        self.log_manager.configure(self.config)
        self.server.configure(self.config)
        if self.replicas is not None:
            self.requests.config = self.config
            self.replicas.configure_broker(self.config, image)

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.replicas.apply(delta, image)
        self.coordinators.metadata_changed(delta, image)
        if delta.brokers and self._deserted is not None and not self._has_successors:
            self._deserted.cancel()

    def _take_dynamic_config(self, image: MetadataImage) -> None:
        self.config = self._config_from_file.with_dynamic(
            image.config(CLUSTER_DEFAULT),
            image.config((ResourceType.BROKER, str(self.node_id))),
        )
        for problem in self.config.ignored:
            log.warning("a stored setting cannot be used", problem=str(problem))
        self.fetch_bytes_max = self.config["fetch.max.bytes"]
        if self.controller is not None:
            self.controller.config = self.config

    def _dir_failed(self, directory: str, cause: BaseException) -> None:
        """A log dir went offline at run time. The node goes on without it, while it can."""
        if self.replicas is not None:
            self.replicas.dir_failed(directory)
        if directory == self.config.metadata_log_dir or not self.log_manager.has_online_dirs:
            self._fail(
                RuntimeError(f"{directory}, which the node cannot do without, failed: {cause}")
            )
        elif self.lifecycle is not None:
            self.lifecycle.directories_changed(self.log_manager.directory_ids())

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
        """Let others take over, stop serving, then make everything durable and mark the shutdown
        as clean."""
        if self.lifecycle is not None:
            await self._leave()
            self.lifecycle.close()
        self.server.stop_serving(BROKERS)
        if self.coordinators is not None:
            self.coordinators.close()
        if self.replicas is not None:
            self.replicas.close()
        if self.controller is not None:
            self.controller.close()
        if self.metadata is not None:
            # Controllers are answered to the end: they take over what this one has decided.
            await self.metadata.close()
        self.server.close()
        self.peers.close()
        await self.log_manager.close(self.broker_epoch)

    async def _leave(self) -> None:
        """Where there is nobody to take over, nothing is to be done: it goes on as it was. That may
        turn out on the way, if all nodes are stopped at the same time."""
        if self.lifecycle.is_fenced or self.failure.done() or not self._has_successors:
            return
        self._deserted = asyncio.get_running_loop().create_future()
        leaving = asyncio.ensure_future(self.lifecycle.leave(LEAVE_S_MAX))
        either: list[asyncio.Future[Any]] = [leaving, self._deserted]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            leaving.cancel()
        elif not leaving.result():
            log.warning("not everything led here was taken over", waited_s_max=LEAVE_S_MAX)

    @property
    def _has_successors(self) -> bool:
        brokers = self.metadata.image.brokers.values()
        return any(broker.is_active for broker in brokers if broker.id != self.node_id)


def _connected_peers(runtime: Runtime) -> Peers:
    from ottla.client.peers import ConnectedPeers

    return ConnectedPeers(runtime)


def _controllers(config: BrokerConfig) -> str:
    """As the configuration names them."""
    named = config["controller.quorum.voters"] or config["controller.quorum.bootstrap.servers"]
    return ",".join(named)


def _belongs(log: Log, image: MetadataImage, node_id: int) -> bool:
    """Whether a log on disk is that of a replica here. It is not if its topic was deleted (there
    may be another of the same name by now) or the replica moved away, while the node was down."""
    topic = image.topics.get(log.topic)
    if topic is None or log.topic_id not in (None, topic.id):
        return False
    partition = topic.partitions.get(log.partition)
    return partition is not None and node_id in partition.replicas


def _directory_of(log: Log, image: MetadataImage, node_id: int) -> bytes | None:
    """In which data folder the metadata has the replica that this log is of."""
    if not _belongs(log, image, node_id):
        return None
    return image.topics[log.topic].partitions[log.partition].directory_of(node_id)


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
    endings: list[asyncio.Future[Any]] = [stop_asked, node.failure]
    starting = asyncio.ensure_future(node.start())
    # A node of a cluster that is not complete waits for the others; it can be stopped meanwhile.
    await asyncio.wait([starting, *endings], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        return 1 if node.failure.done() else 0
    starting.result()
    started(node)
    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
    await node.stop()
    return 1 if node.failure.done() else 0
