"""DescribeCluster."""

from __future__ import annotations

from ottla.broker.server.context import BrokerContext, ControllerContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._authorized_operations import (
    NOT_ASKED,
    authorized_operations_on_cluster,
)
from ottla.broker.server.handlers._replicas import controller_for_clients, reachable_brokers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.security.rights import Operation

BROKERS, CONTROLLERS = 1, 2


def handle(context: BrokerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(context.api_version, request.endpoint_type)
    services = context.services
    image = services.metadata.image
    listener = context.caller.listener_name
    reachable = reachable_brokers(image, listener)
    brokers = [
        DescribeClusterBroker(
            broker_id=broker.id,
            host=broker.endpoints[listener].host,
            port=broker.endpoints[listener].port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in image.brokers.values()
        if broker.id in reachable
        or (request.include_fenced_brokers and listener in broker.endpoints)
    ]
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=controller_for_clients(services.node_id, reachable),
        brokers=brokers,
        cluster_authorized_operations=(
            authorized_operations_on_cluster(context) if asked else NOT_ASKED
        ),
    )


def handle_on_controller(
    context: ControllerContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the controllers, with their addresses on the listener of this connection. It takes
    more rights than to describe brokers: these are addresses that clients need not know."""
    if not context.may_on_cluster(Operation.ALTER):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.endpoint_type == BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to a controller, but asks for brokers.",
        )
    if request.endpoint_type != CONTROLLERS:
        return _wrong_endpoint(context.api_version, request.endpoint_type)
    services = context.services
    listener = context.caller.listener_name
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=services.metadata.leader_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=controller.id,
                host=controller.endpoints[listener].host,
                port=controller.endpoints[listener].port,
            )
            for controller in services.metadata.image.controllers.values()
            if listener in controller.endpoints
        ],
        cluster_authorized_operations=(
            authorized_operations_on_cluster(context) if asked else NOT_ASKED
        ),
    )


def _wrong_endpoint(api_version: int, endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to a broker, but asks for controllers."
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    if api_version == 0:
        code = ErrorCode.INVALID_REQUEST
    return DescribeClusterResponse(error_code=code, error_message=message)


HANDLER = Handler(on_broker=handle, on_controller=handle_on_controller)
