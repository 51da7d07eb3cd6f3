"""Envelopes: what a broker sends to the active controller for its client, and the answer in them.

An envelope holds the client's request as bytes, header and body, with the principal and the address
of the client, so that the controller knows who asks. Its response holds the response to that
request as bytes, or an error of the envelope itself. The format is that of Kafka's brokers.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.server.caller import Caller
from ottla.broker.server.contract import CannotTell
from ottla.protocol.apis import api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.embedded.default_principal_data import DefaultPrincipalData
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from ottla.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    request_header_bytes,
    response_header_version,
)
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.security.principal import KafkaPrincipal

if TYPE_CHECKING:
    from ottla.broker.server.context import NodeContext
    from ottla.protocol.schema import Message

NO_PORT: Final = 0
"""The port of a client whose request was forwarded: an envelope does not name it."""
_UNKNOWN_ADDRESS: Final = bytes(4)
_PRINCIPAL_VERSION: Final = 0
_VERSION: Final = struct.Struct(">h")
_CORRELATION: Final = struct.Struct(">i")


# --- on the broker ------------------------------------------------------------------------------


def sealed(context: NodeContext, request: Message) -> EnvelopeRequest:
    """Return the envelope around a request of the client, in the version of the context."""
    key, version, caller = context.api_key, context.api_version, context.caller
    header = request_header_bytes(key, version, context.correlation_id, context.client_id)
    return EnvelopeRequest(
        request_data=_joined(header, encoder(type(request), version)(request)),
        request_principal=principal_bytes(caller.principal),
        client_host_address=address_bytes(caller.host),
    )


def answer_in(envelope: EnvelopeResponse, key: int, version: int) -> Any:
    """Return the response in an envelope; the envelope itself if it says NOT_CONTROLLER. Raises
    what the client has to be told of any other error."""
    code = ErrorCode.of(envelope.error_code)
    if code is ErrorCode.NOT_CONTROLLER:
        return envelope
    if code is ErrorCode.UNSUPPORTED_VERSION:
        # The controller changed after the client was told the versions; it has to ask again.
        raise CannotTell(f"the active controller does not serve version {version} of API {key}")
    if code is not ErrorCode.NONE or envelope.response_data is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the active controller refused an envelope: {code.name}",
        )
    data = memoryview(envelope.response_data)
    _, position = read_response_header(data, 0, key, version)
    return decoder(api(key).response_class(), version)(data, position)[0]


# --- on the controller --------------------------------------------------------------------------


class Contents(NamedTuple):
    """The request in an envelope, not yet decoded."""

    header: RequestHeader
    caller: Caller
    frame: memoryview
    position: int
    """Where the body begins in the frame."""


def contents_of(envelope: EnvelopeRequest, sender: Caller) -> Contents:
    """Open an envelope; raises `KafkaError` with the codes of Kafka's controllers. `sender` is the
    broker that sent it."""
    caller = Caller(
        principal_in(envelope.request_principal),
        (host_in(envelope.client_host_address), NO_PORT),
        sender.listener_name,
        security_protocol=sender.security_protocol,
        connection_id=sender.connection_id,
        is_forwarded=True,
    )
    frame = memoryview(envelope.request_data)
    try:
        header, position = read_request_header(frame)
    except MalformedMessage as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"Failed to parse request header from envelope: {error}"
        ) from None
    return Contents(header, caller, frame, position)


def sealed_answer(header: RequestHeader, chunks: list[Any]) -> EnvelopeResponse:
    start = _CORRELATION.pack(header.correlation_id)
    if response_header_version(header.api_key, header.api_version):
        start += b"\0"
    return EnvelopeResponse(response_data=_joined(start, chunks))


def _joined(start: bytes, chunks: list[Any]) -> bytes:
    """Return one copy of all chunks: no API that is forwarded answers with parts of files."""
    return b"".join([start, *chunks])


# --- principals and addresses -------------------------------------------------------------------


def principal_bytes(principal: KafkaPrincipal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
    )
    body = encoder(DefaultPrincipalData, _PRINCIPAL_VERSION)(data)
    return _joined(_VERSION.pack(_PRINCIPAL_VERSION), body)


def principal_in(data: bytes | None) -> KafkaPrincipal:
    try:
        if data is None:
            raise MalformedMessage("there is none")
        (version,) = _VERSION.unpack_from(data)
        if version != _PRINCIPAL_VERSION:
            raise MalformedMessage(f"Invalid principal data version {version}")
        read, _ = decoder(DefaultPrincipalData, version)(memoryview(data), _VERSION.size)
    except (MalformedMessage, struct.error) as error:
        raise KafkaError(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            f"Failed to deserialize client principal from envelope: {error}",
        ) from None
    return KafkaPrincipal(read.type, read.name, read.token_authenticated)


def address_bytes(host: str) -> bytes:
    """Return the 4 or 16 bytes of an IP address; 0.0.0.0 for a host without one, which only a
    simulated network has."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return _UNKNOWN_ADDRESS


def host_in(data: bytes) -> str:
    try:
        address = ipaddress.ip_address(bytes(data))
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Failed to parse client address from envelope"
        ) from None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
