"""The services that handlers work with: those of a broker, and those of a controller.

The node builds these when a role has started, complete, and gives them to the connections of that
role's listeners. A handler gets them with each request (`context.services`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.controller.controller import Controller
    from ottla.broker.coordinator.service import Coordinators
    from ottla.broker.membership.controller_link import ControllerLink
    from ottla.broker.membership.controller_requests import ControllerRequests
    from ottla.broker.metadata.image import Endpoint
    from ottla.broker.metadata.log import MetadataLog
    from ottla.broker.quotas.client_quotas import ClientQuotas
    from ottla.broker.quotas.mutations import MutationQuotas
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.broker.server.authorizer import Authorizer
    from ottla.broker.server.batch_opener import BatchOpener
    from ottla.broker.server.envelopes.serving import EnvelopedRequests
    from ottla.broker.server.fetch_sessions import FetchSessionCache
    from ottla.broker.server.figures.topics import TopicFigures
    from ottla.broker.server.live_config import LiveConfig
    from ottla.broker.server.local import LocalController
    from ottla.broker.server.replica_sessions import ReplicaSessionCache
    from ottla.broker.storage.log_manager import LogManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeServices:
    """The services that brokers and controllers have in common."""

    runtime: Runtime
    node_id: int
    cluster_id: str
    live_config: LiveConfig
    metadata: MetadataLog
    """The newest metadata is its `image`."""
    authorizer: Authorizer | None
    """None without `authorizer.class.name`: everybody may do everything."""

    @property
    def config(self) -> BrokerConfig:
        """The settings in force now."""
        return self.live_config.current


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControllerServices(NodeServices):
    controller: Controller
    enveloped: EnvelopedRequests
    mutations: MutationQuotas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BrokerServices(NodeServices):
    endpoints: tuple[Endpoint, ...]
    """The advertised addresses of this broker for clients, by listener."""
    controller_link: ControllerLink
    local_controller: LocalController | None
    """The controller of this node; None without that role. It serves while this node leads the
    metadata log, and `controller_link` finds the one that does."""
    requests: ControllerRequests
    log_manager: LogManager
    replicas: ReplicaManager
    coordinators: Coordinators
    opener: BatchOpener
    fetch_sessions: FetchSessionCache
    replica_sessions: ReplicaSessionCache
    quotas: ClientQuotas
    topic_figures: TopicFigures | None = None
    """Counts what clients send and get, if anybody asks for the metrics."""
