"""DescribeCluster."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._replicas import controller_for_clients, reachable_brokers
from ottla.server.handlers._rights import ALL_ON_CLUSTER, NOT_ASKED

BROKERS, CONTROLLERS = 1, 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(context.api_version, request.endpoint_type)
    node = context.node
    image = node.metadata.image
    listener = context.connection.listener_name
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
        cluster_id=node.cluster_id,
        controller_id=controller_for_clients(node, reachable),
        brokers=brokers,
        cluster_authorized_operations=ALL_ON_CLUSTER if asked else NOT_ASKED,
    )


def handle_on_controller(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """The controllers, by the listener through which the client came."""
    if request.endpoint_type == BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to a controller, but asks for brokers.",
        )
    if request.endpoint_type != CONTROLLERS:
        return _wrong_endpoint(context.api_version, request.endpoint_type)
    node = context.node
    listener = context.connection.listener_name
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=node.cluster_id,
        controller_id=node.metadata.leader_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=controller.id,
                host=controller.endpoints[listener].host,
                port=controller.endpoints[listener].port,
            )
            for controller in node.metadata.image.controllers.values()
            if listener in controller.endpoints
        ],
        cluster_authorized_operations=ALL_ON_CLUSTER if asked else NOT_ASKED,
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
