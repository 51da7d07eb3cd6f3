"""A broker forwards in envelopes, and the active controller knows who asks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from broker_nodes import Cluster, until, with_cluster

from ottla.broker.peers.connected import ConnectedPeers
from ottla.broker.peers.peers import PeerError
from ottla.broker.server.context import ControllerContext
from ottla.broker.server.contract import CONTROLLERS
from ottla.broker.server.dispatch import Route
from ottla.broker.server.envelopes.format import address_bytes, answer_in, principal_bytes
from ottla.node import Node
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import request_header_bytes
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime
from ottla.security.principal import ANONYMOUS, KafkaPrincipal

ALICE = KafkaPrincipal("User", "alice")


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
        timeout_ms=10_000,
    )


def around(
    request: Message,
    version: int,
    *,
    principal: bytes | None = None,
    address: bytes | None = None,
    body: bytes | None = None,
) -> EnvelopeRequest:
    assert request.API_KEY is not None
    header = request_header_bytes(request.API_KEY, version, 5, "an application")
    return EnvelopeRequest(
        request_data=header
        + (b"".join(encoder(type(request), version)(request)) if body is None else body),
        request_principal=principal_bytes(ALICE) if principal is None else principal,
        client_host_address=address_bytes("10.1.2.3") if address is None else address,
    )


def controller_of(node: Node) -> tuple[str, int]:
    (endpoint,) = node.controller_endpoints
    return endpoint.host, endpoint.port


async def post(cluster: Cluster, node: Node, envelope: EnvelopeRequest) -> EnvelopeResponse:
    response: EnvelopeResponse = await cluster.peers.post(
        *controller_of(node), envelope, timeout_ms=20_000
    )
    return response


def route_of(node: Node, key: ApiKey, version: int) -> Route:
    return node.server.dispatchers[CONTROLLERS].find(key, version)


def watch(route: Route) -> list[ControllerContext]:
    """The contexts with which this API is served from now on."""
    seen: list[ControllerContext] = []
    handle = route.handle

    def watched(context: Any, request: Any) -> Any:
        seen.append(context)
        return handle(context, request)

    route.handle = watched
    return seen


def test_the_active_controller_knows_who_asks_a_broker(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        seen = watch(route_of(cluster.active, ApiKey.CREATE_TOPICS, 5))
        client = ConnectedPeers(OsRuntime(), client_id="an application")
        follower = cluster.follower
        answer = await client.post(
            *follower.addresses[0], creation("t"), timeout_ms=10_000, version=5
        )
        client.close()
        assert [topic.error_code for topic in answer.topics] == [0]
        (context,) = seen
        assert (context.api_key, context.api_version) == (ApiKey.CREATE_TOPICS, 5)
        assert context.client_id == "an application"
        assert context.caller.principal == ANONYMOUS
        assert context.caller.host == "127.0.0.1"
        assert context.caller.listener_name == "CONTROLLER"
        assert "t" in follower.metadata.image.topics

    with_cluster(tmp_path, test)


def test_topics_are_created_for_the_client_that_asks_for_their_metadata(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        client = ConnectedPeers(OsRuntime(), client_id="an application")
        seen = {
            node.node_id: watch(route_of(node, ApiKey.CREATE_TOPICS, 7)) for node in nodes(cluster)
        }
        # The active controller's broker and another one: both send the client's name along.
        for node, name in ((cluster.follower, "a"), (cluster.active, "b")):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            answer = await client.post(*node.addresses[0], request, timeout_ms=10_000, version=12)
            assert [topic.error_code for topic in answer.topics] == [0]
        client.close()
        contexts = seen[cluster.active.node_id]
        assert [context.client_id for context in contexts] == ["an application"] * 2
        assert [context.caller.host for context in contexts] == ["127.0.0.1"] * 2

    with_cluster(tmp_path, test)


def nodes(cluster: Cluster) -> list[Node]:
    return list(cluster.nodes.values())


def test_a_request_in_an_envelope_is_served_for_its_client(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        active = cluster.active
        seen = watch(route_of(active, ApiKey.CREATE_TOPICS, 7))
        answer = await post(cluster, active, around(creation("t"), 7))
        assert answer.error_code == ErrorCode.NONE
        assert answer.response_data is not None
        assert answer.response_data[:5] == b"\0\0\0\x05\0", "the client's correlation id, no tags"
        response = answer_in(answer, ApiKey.CREATE_TOPICS, 7)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", 0)]
        (context,) = seen
        assert context.caller.principal == ALICE
        assert context.caller.host == "10.1.2.3"
        assert context.client_id == "an application"

    with_cluster(tmp_path, test)


def test_envelopes_are_refused_as_by_kafka(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        unknown_api = EnvelopeRequest(
            request_data=b"\x03\xe7\0\0\0\0\0\x01\xff\xff",
            request_principal=principal_bytes(ALICE),
            client_host_address=bytes(4),
        )
        inner = around(creation("t"), 7)
        cases = {
            "a principal of another version": (
                around(creation("t"), 7, principal=b"\0\x09"),
                ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            ),
            "no address": (around(creation("t"), 7, address=b"\x7f"), ErrorCode.INVALID_REQUEST),
            "an API of brokers": (around(MetadataRequest(), 12), ErrorCode.INVALID_REQUEST),
            "an API of controllers alone": (
                around(AlterPartitionRequest(), 3),
                ErrorCode.INVALID_REQUEST,
            ),
            "an envelope": (around(inner, 0), ErrorCode.INVALID_REQUEST),
            "no API": (unknown_api, ErrorCode.UNSUPPORTED_VERSION),
            "no version": (
                around(creation("t"), 99, body=b""),
                ErrorCode.UNSUPPORTED_VERSION,
            ),
            "no body": (around(creation("t"), 7, body=b"\x7f"), ErrorCode.UNSUPPORTED_VERSION),
        }
        for what, (envelope, expected) in cases.items():
            answer = await post(cluster, cluster.active, envelope)
            assert ErrorCode.of(answer.error_code) == expected, what
            assert answer.response_data is None
        answer = await post(cluster, cluster.follower, around(creation("t"), 7))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert "t" not in cluster.active.metadata.image.topics
        with pytest.raises(PeerError) as refused:
            await cluster.peers.post(*cluster.active.addresses[0], inner, timeout_ms=5_000)
        assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION, "brokers do not serve it"

    with_cluster(tmp_path, test)


def test_an_error_of_the_request_is_in_the_answer_to_the_client(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        route = route_of(cluster.active, ApiKey.UPDATE_FEATURES, 1)

        def fail(_context: Any, _request: Any) -> UpdateFeaturesResponse:
            raise RuntimeError("as the test asks for")

        route.handle = fail
        answer = await post(cluster, cluster.active, around(UpdateFeaturesRequest(), 1))
        assert answer.error_code == ErrorCode.NONE
        response = answer_in(answer, ApiKey.UPDATE_FEATURES, 1)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    with_cluster(tmp_path, test)


@pytest.mark.parametrize("count", [1, 300, 5_000])
def test_large_requests_in_envelopes_are_served_in_slices(tmp_path: Path, count: int) -> None:
    async def test(cluster: Cluster) -> None:
        topics = [DeleteTopicState(name=f"no-{number}") for number in range(count)]
        request = DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
        codes = {ErrorCode.NOT_CONTROLLER}
        attempts_left = 5
        while codes == {ErrorCode.NOT_CONTROLLER} and attempts_left:
            # On a busy machine the quorum may elect another leader meanwhile.
            attempts_left -= 1
            await until(lambda: sum(node.metadata.is_leader for node in nodes(cluster)) == 1)
            answer = await post(cluster, cluster.active, around(request, 6))
            response: DeleteTopicsResponse = answer_in(answer, ApiKey.DELETE_TOPICS, 6)
            assert [one.name for one in response.responses] == [topic.name for topic in topics]
            codes = {ErrorCode(one.error_code) for one in response.responses}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    with_cluster(tmp_path, test)


def test_a_forwarded_request_finds_the_next_controller(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        follower, first = cluster.follower, cluster.active
        client = ConnectedPeers(OsRuntime(), client_id="an application")
        stopping = asyncio.ensure_future(cluster.stop(first.node_id))
        answer = await client.post(*follower.addresses[0], creation("t"), timeout_ms=20_000)
        await stopping
        client.close()
        assert [topic.error_code for topic in answer.topics] == [0]
        await until(lambda: "t" in follower.metadata.image.topics)

    with_cluster(tmp_path, test)


def test_a_broker_learns_the_versions_of_the_active_controller(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        links = {
            node.node_id: node.broker.services.controller_link.controller_versions()
            for node in nodes(cluster)
        }
        assert links.pop(cluster.active.node_id) is None, "its own"
        for versions in links.values():
            assert versions is not None
            assert versions[ApiKey.ENVELOPE] == (0, 0)

    with_cluster(tmp_path, test)
