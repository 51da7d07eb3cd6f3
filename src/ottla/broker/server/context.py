"""The request's context for a handler: which API, who asks, and what there is to serve it with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.rights import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.server.caller import Caller
    from ottla.broker.server.services import BrokerServices, ControllerServices, NodeServices

NO_CORRELATION_ID: Final = -1
"""The correlation id of requests that this node makes to itself."""

S_co = TypeVar("S_co", bound="NodeServices", covariant=True)

_REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class RequestContext(Generic[S_co]):
    """Made for each request, so it has only what differs between the requests of a connection, and
    two objects that do not differ."""

    __slots__ = ("api_key", "api_version", "caller", "client_id", "correlation_id", "services")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        client_id: str | None,
        caller: Caller,
        services: S_co,
        correlation_id: int = NO_CORRELATION_ID,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.caller = caller
        self.services = services
        self.correlation_id = correlation_id
        """The number that the client gave the request, also for requests that a broker forwards."""

    def may(
        self, operation: Operation, resource_type: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """True if the caller has the right. `quiet`: a refusal is no event for the audit log,
        because the client did not ask for this resource by its name."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows(
            self, operation, resource_type, name, quiet=quiet
        )

    def may_on_cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet)

    def require(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raise `KafkaError` if the caller lacks the right. The error does not tell the name: the
        client knows what it asked for, and must not learn more."""
        if not self.may(operation, resource_type, name):
            raise KafkaError(_REFUSALS[resource_type])

    def require_on_cluster(self, operation: Operation) -> None:
        self.require(operation, ResourceType.CLUSTER, CLUSTER_NAME)


BrokerContext: TypeAlias = "RequestContext[BrokerServices]"
ControllerContext: TypeAlias = "RequestContext[ControllerServices]"
NodeContext: TypeAlias = "RequestContext[NodeServices]"
"""The context of a request that brokers and controllers serve by the same code."""
