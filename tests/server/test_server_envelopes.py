"""Envelopes in Kafka's format: who the client is, what it asks, and the answer to it."""

from __future__ import annotations

import pytest

from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.broker.server.contract import CannotTell
from ottla.broker.server.envelopes.format import (
    address_bytes,
    answer_in,
    contents_of,
    host_in,
    principal_bytes,
    principal_in,
    sealed,
    sealed_answer,
)
from ottla.broker.server.handlers.api_versions import common_versions
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encoder
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.api_versions import ApiVersion
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.security.principal import ANONYMOUS, KafkaPrincipal

BROKER = Caller(ANONYMOUS, ("10.0.0.2", 4000), "CONTROLLER", connection_id=9)
ALICE = KafkaPrincipal("User", "alice", token_authenticated=True)


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    # the version, then DefaultPrincipalData 0: two compact strings, a boolean, no tags
    assert principal_bytes(ALICE) == b"\0\0" + b"\x05User" + b"\x06alice" + b"\x01" + b"\0"
    assert principal_in(principal_bytes(ALICE)) == ALICE
    assert principal_in(principal_bytes(ANONYMOUS)) == ANONYMOUS


@pytest.mark.parametrize("data", [None, b"", b"\0", b"\0\x01\x05User\x02a\0\0", b"\0\0\x05Us"])
def test_a_principal_that_cannot_be_read_is_refused(data: bytes | None) -> None:
    with pytest.raises(KafkaError) as refused:
        principal_in(data)
    assert refused.value.code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize(
    ("host", "size", "read"),
    [
        ("192.168.1.20", 4, "192.168.1.20"),
        ("2001:db8::7", 16, "2001:db8::7"),
        ("fe80::1%eth0", 16, "fe80::1"),
        ("::ffff:10.1.2.3", 16, "10.1.2.3"),  # as Java reads it
        ("a-host-of-the-simulation", 4, "0.0.0.0"),
    ],
)
def test_addresses_are_raw_bytes(host: str, size: int, read: str) -> None:
    data = address_bytes(host)
    assert len(data) == size
    assert host_in(data) == read


@pytest.mark.parametrize("data", [b"", b"\x7f\0\0", bytes(5), bytes(17)])
def test_an_address_of_another_size_is_refused(data: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        host_in(data)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [2, 4, 5, 7])
@pytest.mark.parametrize("client_id", [None, "", "an application"])
def test_a_request_comes_out_as_it_went_in(version: int, client_id: str | None) -> None:
    caller = Caller(ALICE, ("10.1.2.3", 5555), "CLIENTS", connection_id=3)
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)])
    context = RequestContext(ApiKey.CREATE_TOPICS, version, client_id, caller, None)  # type: ignore[type-var]
    contents = contents_of(sealed(context, request), BROKER)
    assert contents.header[:2] == (ApiKey.CREATE_TOPICS, version)
    assert contents.header.client_id == client_id
    assert contents.caller.principal == ALICE
    assert contents.caller.host == "10.1.2.3"
    # the way by which it came here is that of the broker
    assert contents.caller.listener_name == "CONTROLLER"
    assert contents.caller.connection_id == 9
    body = b"".join(encoder(CreateTopicsRequest, version)(request))
    assert contents.frame[contents.position :] == body
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    answer = sealed_answer(contents.header, encoder(CreateTopicsResponse, version)(response))
    assert answer_in(answer, ApiKey.CREATE_TOPICS, version).topics[0].name == "t"


@pytest.mark.parametrize(
    "data", [b"", b"\0\x13\0\x07\0\0\0\0\0\x05ab", b"\0\x13\0\x07\0\0\0\0\xff"]
)
def test_a_header_that_cannot_be_read_is_an_unsupported_version(data: bytes) -> None:
    envelope = EnvelopeRequest(
        request_data=data,
        request_principal=principal_bytes(ANONYMOUS),
        client_host_address=bytes(4),
    )
    with pytest.raises(KafkaError) as refused:
        contents_of(envelope, BROKER)
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_errors_of_an_envelope_reach_the_client_as_kafka_tells_them() -> None:
    moved = EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert answer_in(moved, ApiKey.CREATE_TOPICS, 7) is moved, "to be asked again"
    with pytest.raises(CannotTell):  # the client connects again and asks for the versions
        answer_in(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 19, 7)
    for code in (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, ErrorCode.INVALID_REQUEST):
        with pytest.raises(KafkaError) as refused:
            answer_in(EnvelopeResponse(error_code=code), 19, 7)
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_broker_offers_versions_of_forwarded_apis_that_the_controller_serves() -> None:
    def versions(*given: tuple[int, int, int]) -> list[ApiVersion]:
        return [ApiVersion(api_key=k, min_version=low, max_version=high) for k, low, high in given]

    own = versions((0, 0, 13), (19, 2, 7), (20, 1, 6), (37, 0, 3), (43, 0, 2))
    known = {0: (3, 5), 19: (2, 9), 20: (3, 5), 37: (4, 8)}
    assert common_versions(own, known) == versions((0, 0, 13), (19, 2, 7), (20, 3, 5))
