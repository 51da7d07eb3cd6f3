"""A node: the module to read first. It creates all parts and defines the order in which they start.

disks locked -> controller listeners opened -> quorum joined -> metadata caught up
-> partition logs loaded -> listeners opened -> this broker registered -> unfenced -> ready

They stop in reverse order, after other brokers have taken over the partitions led here.

`process.roles` says which parts there are: a node is a controller (takes part in the quorum of the
metadata log, and may lead it), a broker (has partitions and serves clients), or both. Each role
gives its services, complete, to the handlers of its listeners (`broker/server/services.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.controller.controller import Controller
from ottla.broker.coordinator.service import Coordinators
from ottla.broker.membership.controller_link import ControllerLink
from ottla.broker.membership.controller_requests import ControllerRequests
from ottla.broker.membership.departure import Departure
from ottla.broker.membership.lifecycle import Lifecycle
from ottla.broker.membership.registration import NOT_CLEAN, Identity, common_epoch
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.features import check_supported
from ottla.broker.metadata.formatting import FirstVoter, write_first_voters
from ottla.broker.metadata.image import Endpoint, MetadataImage
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.peers.late import LatePeers
from ottla.broker.quotas.mutations import MutationQuotas
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.topic_configs import TopicConfigs
from ottla.broker.server.batch_opener import BatchOpener
from ottla.broker.server.connections.meter import log_throttled
from ottla.broker.server.contract import BROKERS, CONTROLLERS
from ottla.broker.server.envelopes.serving import EnvelopedRequests
from ottla.broker.server.fetch_sessions import FetchSessionCache
from ottla.broker.server.live_config import LiveConfig
from ottla.broker.server.local import LocalController
from ottla.broker.server.replica_sessions import ReplicaSessionCache
from ottla.broker.server.server import ListenerSecurity, Server
from ottla.broker.server.services import BrokerServices, ControllerServices
from ottla.broker.storage.log_manager import LogManager
from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.listeners import SECURITY_PROTOCOLS, is_this_machine
from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.protocol.uuids import random_uuid
from ottla.runtime.pace import Backlog

if TYPE_CHECKING:
    from ottla.broker.peers.peers import Peers
    from ottla.broker.server.acl_authorizer import AclAuthorizer
    from ottla.broker.storage.log import Log
    from ottla.config.listeners import Listener
    from ottla.counters import Metric
    from ottla.metrics.endpoint import MetricsEndpoint
    from ottla.network.node_tls import ListenerTls, NodeTls
    from ottla.network.security import Security
    from ottla.runtime.os_runtime import OsRuntime
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.node")

QUORUM_WAIT_LOG_INTERVAL_S: Final = 10.0
"""How often a node that cannot start yet logs what it waits for."""


class Node:
    """Create it in a running loop, then `await node.start()`, and finally `await node.stop()`.

    The metadata log and the roles appear while it starts: `metadata`, `controller` and `broker`
    raise before that, and without the role.

    It is one thing: the order in which the parts are created, started, changed and stopped. They do
    not know each other; only this class knows all of them.
    """

    def __init__(
        self, runtime: Runtime, config: BrokerConfig, metrics_at: tuple[str, int] | None = None
    ) -> None:
        """`metrics_at`: where to serve metrics, if anybody wants them."""
        self.runtime = runtime
        self.node_id: int = config["node.id"]
        self.live_config = LiveConfig(config)
        self.endpoints: tuple[Endpoint, ...] = ()
        """The advertised addresses of this broker for clients, by listener."""
        self.addresses: list[tuple[str, int]] = []
        """The addresses on which it listens for clients: the host as configured, and the port that
        was opened."""
        self.controller_endpoints: tuple[Endpoint, ...] = ()
        """The advertised addresses of this controller for other nodes."""
        loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[Exception] = loop.create_future()
        """Resolved with the reason when the node can no longer work and has to stop."""
        self._metadata: asyncio.Future[MetadataLog] = loop.create_future()
        self._controller: asyncio.Future[Controller] = loop.create_future()
        self._broker: asyncio.Future[Broker] = loop.create_future()
        self._departure = Departure(self.node_id)
        self.log_manager = LogManager(
            runtime,
            config,
            on_dir_failed=self._dir_failed,
            on_new_cluster=self._found_quorum,
        )
        names = config.inter_broker_listener_name, config.controller_listener_name
        brokers, controllers = (partial(self._connected_peers, name) for name in names)
        self.peers: Peers = LatePeers(brokers)
        self._controller_peers: Peers = self.peers
        """Those of brokers, unless one of the two has TLS or a sign-in."""
        if names[0] != names[1] and any(map(config.is_secured, names)):
            self._controller_peers = LatePeers(controllers)
        self._tls: NodeTls | None = None
        """None if no listener has TLS."""
        self.server = Server(runtime, config, self.log_manager.file_failed, self._security_of)
        self._reactions = Backlog(runtime, "react-to-metadata")
        self._authorizer: AclAuthorizer | None = None
        self._controller_services: ControllerServices | None = None
        """Set while the listeners of the controller wait until the ACLs are loaded."""
        if config.authorization is not None:
            from ottla.broker.server.acl_authorizer import AclAuthorizer

            self._authorizer = AclAuthorizer(runtime, config.authorization)
        self._mutations: MutationQuotas | None = None
        """The quotas of changes; None if this is no controller."""
        self.metrics: MetricsEndpoint | None = None
        self.metrics_address: tuple[str, int] | None = None
        """Where metrics are served: the host as configured, and the port that was opened."""
        if metrics_at is not None:
            from ottla.metrics.endpoint import MetricsEndpoint

            self.metrics = MetricsEndpoint(self, *metrics_at)
            for dispatcher in self.server.dispatchers.values():
                dispatcher.figures = self.metrics.requests
        self._closing: list[Callable[[], Awaitable[None] | None]] = []
        """Stops what was started: call the last one first."""

    @property
    def config(self) -> BrokerConfig:
        """The settings in force now."""
        return self.live_config.current

    @property
    def cluster_id(self) -> str:
        return self.log_manager.dirs.cluster_id

    @property
    def has_metadata(self) -> bool:
        return self._metadata.done()

    @property
    def metadata(self) -> MetadataLog:
        return self._metadata.result()

    @property
    def controller(self) -> Controller:
        return self._controller.result()

    @property
    def has_broker(self) -> bool:
        return self._broker.done()

    @property
    def broker(self) -> Broker:
        return self._broker.result()

    @property
    def waits_for(self) -> str | None:
        """Return why the node does not serve yet; None if it does."""
        if not self.has_metadata:
            return "the disks are being opened"
        if self.metadata.quorum.core.leader_id < 0:
            return "there is no quorum of controllers"
        if self.config.is_broker and (not self.has_broker or self.broker.lifecycle.is_fenced):
            return "the controller has not let this broker serve yet"
        return None

    @property
    def replicas(self) -> ReplicaManager:
        """The replicas on this broker."""
        return self.broker.services.replicas

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it is registered."""
        return self.broker.lifecycle.broker_epoch if self.has_broker else NOT_CLEAN

    def quota_metrics(self) -> list[Metric]:
        """Return Kafka's metrics of quotas, read now: rates, throttle times and tokens of clients
        that have a quota, and the rates of new connections."""
        server = self.server
        found = [*server.quotas.metrics(), *server.entry.rates.metrics()]
        return found if self._mutations is None else [*found, *self._mutations.metrics()]

    # --- opening --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; if a step fails, everything started before is stopped again."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        if self.config.tls_listeners:
            from ottla.network.node_tls import NodeTls

            self._tls = NodeTls.open(self.config)
            self._watch_tls_files(self._tls)
        await self.log_manager.open()
        self._closing.append(self._close_logs)
        if self.metrics is not None:
            self.metrics_address = self.metrics.open()
            self._closing.append(self.metrics.close)
        # Finish deletions of topics, so that nothing is left for the next start to wonder about.
        self._closing.append(self._reactions.finished)
        self._closing += [self.peers.close, self._controller_peers.close, self.server.close]
        metadata = await self._open_metadata()
        if self.metrics is not None:
            self.metrics.follow()
        local = self._start_controller(metadata) if self.config.is_controller else None
        link = ControllerLink(
            self.runtime,
            metadata,
            self._controller_peers,
            None if local is None else local.ask_for_node,
            timeout_ms=self.config["request.timeout.ms"],
        )
        if local is not None:
            self._register_controller(link)
        await self._catch_up(metadata)
        if self._authorizer is not None:
            await self._load_acls(metadata, self._authorizer)
        check_supported(
            metadata.image.features,
            "the cluster",
            "Lower them while Kafka's nodes run it: kafka-features.sh downgrade",
        )
        self.live_config.check_with(self._check_tls)
        # Before the server, which may have to open a listener with TLS.
        self.live_config.on_change(lambda config, image: self._renew_tls(config))
        self.live_config.on_change(lambda config, image: self.log_manager.configure(config))
        self.live_config.on_change(lambda config, image: self.server.configure(config))
        self.live_config.take(metadata.image)
        self._warn_of_replaced_listeners()
        self._take_quotas(metadata.image)
        metadata.subscribe(self._settings_changed)
        if self.config.is_broker:
            await self._start_broker(metadata, link, local)
        else:
            # There are no partitions here; other files in the log dirs still need housekeeping.
            config = TopicConfig.build(self.config, {})
            await self.log_manager.load(lambda topic: config)

    def _security_of(self, listener: str) -> ListenerSecurity:
        """Return the security of a listener to be opened; raises `OSError` if it has none."""
        config = self.config
        sasl = None
        if config.has_sasl(listener):
            from ottla.broker.server.sign_in.sign_ins import ListenerSasl

            try:
                sasl = ListenerSasl(listener, config.sasl_of(listener), self.runtime)
            except ConfigError as error:
                raise OSError(f"nobody could sign in: {error}") from None
        return ListenerSecurity(config.protocol_of(listener), self._tls_of(listener), sasl)

    def _tls_of(self, listener: str) -> ListenerTls | None:
        if not self.config.has_tls(listener):
            return None
        found = None if self._tls is None else self._tls.of(listener)
        if found is None:
            raise OSError(f"listener {listener} has no certificate that can be used")
        return found

    def _check_tls(self, config: BrokerConfig) -> None:
        from ottla.network.node_tls import NodeTls

        (self._tls or NodeTls()).check(config)

    def _renew_tls(self, config: BrokerConfig) -> None:
        if self._tls is not None:
            self._tls.take(config)
        elif config.tls_listeners:
            from ottla.network.node_tls import NodeTls

            self._tls = NodeTls()
            self._tls.take(config)
            self._watch_tls_files(self._tls)

    def _watch_tls_files(self, tls: NodeTls) -> None:
        watching = tls.watch_files(self.runtime, lambda: self.config)
        self.runtime.spawn(watching, name="watch-tls-files")

    def _connected_peers(self, listener: str) -> Peers:
        """Return the nodes that this one reaches by their listeners of this name."""
        from ottla.broker.peers.connected import ConnectedPeers
        from ottla.network.sasl_mechanisms import signing_in_with
        from ottla.network.security import PLAINTEXT

        tls = self._tls if self.config.has_tls(listener) else None
        login = None if self.config.is_alone else self.config.login_of(listener)
        if login is None and tls is None:
            return ConnectedPeers(self.runtime)
        mechanism, begin = "", None
        if login is not None:
            mechanism = login.mechanism
            begin = signing_in_with(mechanism, login.user, login.password)
            if login.kerberos is not None:
                from ottla.network.gssapi import signing_in_with_ticket

                kerberos = login.kerberos
                begin = signing_in_with_ticket(
                    kerberos.service, kerberos.principal, kerberos.keytab
                )
            if login.tokens is not None:
                from ottla.network.oauth.sign_in import signing_in_with_tokens

                begin = signing_in_with_tokens(login.tokens)

        def security() -> Security:
            secured = PLAINTEXT if tls is None else tls.security_of(listener)
            return replace(secured, mechanism=mechanism, begin_sign_in=begin)

        return ConnectedPeers(self.runtime, security=security)

    def _found_quorum(self, folder: str, directory_id: bytes) -> None:
        """Write the first voters, if no log dir was formatted and this is the only controller to
        ask."""
        servers = self.config.bootstrap_controllers
        if servers:
            write_first_voters(
                self.runtime.disk,
                folder,
                [FirstVoter(self.node_id, directory_id, *servers[0])],
                listener=self.config["controller.listener.names"][0],
                now_ms=self.runtime.clock.wall_ms(),
            )

    async def _open_metadata(self) -> MetadataLog:
        """Join the quorum. Controllers listen first: other nodes are told their addresses."""
        config = self.config
        self.controller_endpoints = self._listen(
            config.controller_listeners, config.advertised_controller_listeners, CONTROLLERS
        )
        metadata = await MetadataLog.open(
            self.runtime,
            config.metadata_log_dir,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            config=config,
            clean=self.log_manager.dirs.was_clean(config.metadata_log_dir),
            on_failure=self._metadata_failed,
            directory_id=self.log_manager.dirs.directory_id(config.metadata_log_dir),
            peers=self._controller_peers,
            endpoints=self.controller_endpoints,
        )
        self._metadata.set_result(metadata)
        self._closing.append(self._close_metadata)
        return metadata

    def _start_controller(self, metadata: MetadataLog) -> LocalController:
        """Serve as a controller from the beginning: no leader can be elected before a majority of
        them does."""
        controller = Controller(metadata, self.config, self.runtime)
        self._controller.set_result(controller)
        self._closing.append(controller.close)
        self.live_config.on_change(lambda config, image: controller.configure(config))
        self._mutations = MutationQuotas(
            QuotaWindows.of_controller(self.config), self.runtime.clock.now, log_throttled
        )
        services = ControllerServices(
            runtime=self.runtime,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            live_config=self.live_config,
            metadata=metadata,
            authorizer=self._authorizer,
            controller=controller,
            enveloped=EnvelopedRequests(
                self.server.dispatchers[CONTROLLERS], self.server.large_requests
            ),
            mutations=self._mutations,
        )
        if self.config.controllers_start_early:
            self.server.start_serving(CONTROLLERS, services)
        else:
            self._controller_services = services
        (listener, *_) = self.config["controller.listener.names"] or ("",)
        return LocalController(services, listener)

    async def _load_acls(self, metadata: MetadataLog, authorizer: AclAuthorizer) -> None:
        metadata.subscribe(authorizer.metadata_changed)
        self._closing.append(authorizer.finished)
        await authorizer.load(metadata.image)
        if self._controller_services is not None:
            self.server.start_serving(CONTROLLERS, self._controller_services)

    def _register_controller(self, link: ControllerLink) -> None:
        """Register this controller in the background. Without a listener no node would look for
        it."""
        if self.controller_endpoints:
            from ottla.broker.membership.controller_registration import register_controller

            incarnation_id = random_uuid(self.runtime.random)
            registration = register_controller(
                link.ask, self.node_id, incarnation_id, self.controller_endpoints
            )
            self.runtime.spawn(registration, name="register-controller")

    async def _catch_up(self, metadata: MetadataLog) -> None:
        """Wait for the metadata, which takes a quorum of controllers; log while there is none."""
        caught_up = asyncio.ensure_future(metadata.caught_up())
        try:
            while not (await asyncio.wait([caught_up], timeout=QUORUM_WAIT_LOG_INTERVAL_S))[0]:
                log.warning(
                    "waiting for a quorum of controllers; do enough of them run, are their "
                    "addresses right, and were all nodes formatted with this cluster id?",
                    cluster_id=self.cluster_id,
                    controllers=_controllers(self.config),
                )
            caught_up.result()
        finally:
            caught_up.cancel()

    async def _start_broker(
        self, metadata: MetadataLog, link: ControllerLink, local: LocalController | None
    ) -> None:
        runtime = self.runtime
        image = metadata.image
        topic_configs = TopicConfigs(self.config)
        await self.log_manager.load(
            lambda topic: topic_configs.of(topic, image),
            lambda log: _directory_of(log, image, self.node_id),
        )
        self.log_manager.set_aside_strays(lambda log: _belongs(log, image, self.node_id))
        config = self.config
        self.endpoints = self._listen(config.listeners, config.advertised_listeners, BROKERS)
        lifecycle = Lifecycle(runtime, link.ask, metadata, self._identity(), config, self._fail)
        requests = ControllerRequests(runtime, link.ask, metadata, config, lifecycle.epoch)
        replicas = ReplicaManager(
            runtime,
            config,
            self.log_manager,
            self.node_id,
            peers=self.peers,
            # Changes of ISRs delay acknowledgements: they must not wait behind other requests.
            ask=partial(link.ask, lane="isr"),
            broker_epoch=lifecycle.epoch,
            report_dirs=requests.assign_directories,
            confirm_dir=requests.confirm_directory,
        )
        self._closing.append(replicas.close)
        self.live_config.on_change(replicas.configure_broker)
        coordinators = Coordinators(
            runtime,
            replicas,
            config,
            node_id=self.node_id,
            ask=link.ask,
            peers=self.peers,
            broker_epoch=lifecycle.epoch,
        )
        self._closing.append(coordinators.close)
        services = BrokerServices(
            runtime=runtime,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            live_config=self.live_config,
            metadata=metadata,
            authorizer=self._authorizer,
            endpoints=self.endpoints,
            controller_link=link,
            local_controller=local,
            requests=requests,
            log_manager=self.log_manager,
            replicas=replicas,
            coordinators=coordinators,
            opener=BatchOpener(runtime),
            fetch_sessions=FetchSessionCache(
                config["max.incremental.fetch.session.cache.slots"], runtime.random
            ),
            replica_sessions=ReplicaSessionCache(runtime.random),
            quotas=self.server.quotas,
            topic_figures=None if self.metrics is None else self.metrics.topics,
        )
        broker = Broker(services, lifecycle, self._departure, self._reactions)
        self._broker.set_result(broker)
        self._closing += [partial(self.server.stop_serving, BROKERS), self._leave]
        self.live_config.on_change(broker.configure)
        await broker.join()
        self.server.start_serving(BROKERS, services, services.fetch_sessions.forget)
        await lifecycle.serve()

    def _identity(self) -> Identity:
        dirs = self.log_manager.dirs
        return Identity(
            self.node_id,
            self.cluster_id,
            random_uuid(self.runtime.random),
            self.endpoints,
            self.config["broker.rack"],
            self.log_manager.dirs.directory_ids(),
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
                SECURITY_PROTOCOLS.index(self.config.protocol_of(told.name)),
            )
            for told in advertised
        )

    # --- changing -------------------------------------------------------------------------------

    def _settings_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.brokers_reconfigured:
            self.live_config.take(image)
        if delta.security:
            self._take_quotas(image)

    def _take_quotas(self, image: MetadataImage) -> None:
        self.server.quotas.take(image.client_quotas)
        self.server.entry.rates.take(image.client_quotas)

    def _warn_of_replaced_listeners(self) -> None:
        if self.config.unopened_listeners:
            log.warning(
                "listeners that were stored while the broker ran replace those of the file or of "
                f"--listener; `ottla configs alter --broker {self.node_id} --delete listeners` "
                "removes them, from the next start on",
                stored=self.config.per_broker["listeners"],
                given=self.config.explicit["listeners"],
            )

    def _dir_failed(self, directory: str, cause: BaseException) -> None:
        """A log dir went offline at run time. The node continues without it, if it can."""
        is_fatal = directory == self.config.metadata_log_dir or not self.log_manager.dirs.online()
        if self.has_broker:
            self.broker.dir_failed(directory, goes_on=not is_fatal)
        if is_fatal:
            self._fail(
                RuntimeError(f"{directory}, which the node cannot do without, failed: {cause}")
            )

    def _metadata_failed(self, cause: Exception) -> None:
        # Take it offline, so that the log dir is not marked as closed properly.
        self.log_manager.fail_dir(self.config.metadata_log_dir, cause)
        self._fail(cause)

    def _fail(self, reason: Exception) -> None:
        if not self.failure.done():
            log.error("the node has to stop", reason=str(reason))
            self.failure.set_result(reason)

    # --- closing --------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Let others take over, stop serving, then make everything durable and mark the shutdown as
        clean."""
        if self.has_metadata:
            self.metadata.news.close()
        while self._closing:
            close = self._closing[-1]
            ending = close()
            if ending is not None:
                await ending
            # If a part cannot be stopped, those below it are not marked as closed properly.
            if self._closing and self._closing[-1] is close:
                self._closing.pop()

    async def _leave(self) -> None:
        lifecycle = self.broker.lifecycle
        if not (lifecycle.is_fenced or self.failure.done()):
            await self._departure.leave(lifecycle, self.metadata.image)
        lifecycle.close()

    async def _close_metadata(self) -> None:
        # Controllers are answered to the end: they take over what this one has decided.
        await self.metadata.close(is_last=self._departure.is_deserted)

    async def _close_logs(self) -> None:
        await self.log_manager.close(self.broker_epoch)

    def stop_waiting(self) -> None:
        """Stop waiting for others while this node stops: there are none, or they are not worth
        waiting for."""
        self._departure.stop_waiting()


class Broker:
    """The broker of a node: it follows the metadata and reports to the controller."""

    def __init__(
        self,
        services: BrokerServices,
        lifecycle: Lifecycle,
        departure: Departure,
        reactions: Backlog,
    ) -> None:
        self.services = services
        self.lifecycle = lifecycle
        self._departure = departure
        self._reactions = reactions
        self._report_cordoned()

    async def join(self) -> None:
        """Register this broker, then host what the metadata assigns to it."""
        services = self.services
        replicas, metadata, log_manager = services.replicas, services.metadata, services.log_manager
        await self.lifecycle.register()
        replicas.load(metadata.image)
        services.coordinators.metadata_changed(MetadataDelta(), metadata.image)
        metadata.subscribe(self._metadata_changed)
        log_manager.start_background_work(replicas.high_watermarks)

    def _metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage
    ) -> asyncio.Future[None] | None:
        return self._reactions.take(self._react(delta, image))

    def _react(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Apply a metadata change. Coordinators come after replicas: they check which partitions
        are led here."""
        services = self.services
        yield from services.replicas.apply(delta, image)
        services.coordinators.metadata_changed(delta, image)
        if delta.brokers:
            self._departure.brokers_changed(services.metadata.image)

    def configure(self, config: BrokerConfig, _image: MetadataImage) -> None:
        """Apply settings that changed at run time."""
        self.services.requests.config = config
        self._report_cordoned()

    def dir_failed(self, directory: str, *, goes_on: bool) -> None:
        self.services.replicas.dir_failed(directory)
        if goes_on:
            self.lifecycle.directories_changed(self.services.log_manager.dirs.directory_ids())
            self._report_cordoned()

    def _report_cordoned(self) -> None:
        self.lifecycle.cordon(self.services.log_manager.dirs.cordoned_ids())


def _controllers(config: BrokerConfig) -> str:
    """Return the controllers that the configuration names."""
    named = config["controller.quorum.voters"] or config["controller.quorum.bootstrap.servers"]
    return ",".join(named)


def _belongs(log: Log, image: MetadataImage, node_id: int) -> bool:
    """True if a log on disk belongs to a replica here. It does not if its topic was deleted (there
    may be another of the same name by now) or the replica moved away while the node was down."""
    topic = image.topics.get(log.topic)
    if topic is None or log.topic_id not in (None, topic.id):
        return False
    partition = topic.partitions.get(log.partition)
    return partition is not None and node_id in partition.replicas


def _directory_of(log: Log, image: MetadataImage, node_id: int) -> bytes | None:
    """Return the directory that the metadata has for the replica of this log."""
    if not _belongs(log, image, node_id):
        return None
    return image.topics[log.topic].partitions[log.partition].directory_of(node_id)


def run(
    config: BrokerConfig,
    started: Callable[[Node], object] = lambda node: None,
    metrics_at: tuple[str, int] | None = None,
) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; return the exit code. A second signal ends the wait
    for others to take over. `started` is called when clients are served."""
    from ottla.runtime.os_memory import bound_kept_memory, give_back_now_and_then
    from ottla.runtime.os_runtime import run as run_on_loop

    async def serve(runtime: OsRuntime) -> int:
        giving_back = asyncio.ensure_future(give_back_now_and_then())
        try:
            return await _serve(runtime, Node(runtime, config, metrics_at), started)
        finally:
            giving_back.cancel()

    bound_kept_memory()
    return run_on_loop(serve)


async def _serve(runtime: OsRuntime, node: Node, started: Callable[[Node], object]) -> int:
    config = node.config
    stop_asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    runtime.on_stop_signal(lambda: stop_asked.set_result(None), hurry=node.stop_waiting)
    for warning in config.unused_warnings():
        log.warning(warning)
    if exposed := config.exposed_listeners:
        log.warning(
            "ANYBODY who reaches these listeners over the network may read, change and delete "
            "everything: they have neither TLS nor sign-in; see docs/security.md",
            listeners=",".join(map(str, exposed)),
        )
    if node.metrics is not None and not is_this_machine(node.metrics.host):
        log.warning(
            "anybody who reaches the metrics over the network may read the names of topics and "
            "groups: there is no sign-in for them; see docs/metrics.md",
            host=node.metrics.host,
        )
    endings: list[asyncio.Future[Any]] = [stop_asked, node.failure]
    starting = asyncio.ensure_future(node.start())
    # A node of an incomplete cluster waits for the others; it can be stopped meanwhile.
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
