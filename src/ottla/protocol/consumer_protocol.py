"""The consumer protocol: the bytes inside JoinGroup and SyncGroup of protocol type "consumer".

The member's subscription and its assignment begin with their version (int16). All clients use the
same format, so that different clients can share a group. Broker and clients read them here only.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.protocol.codec import decoder, encoder
from ottla.protocol.embedded.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import MalformedMessage

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of classic groups whose members use this format."""
VERSION_MAX: Final = 3

_VERSION: Final = struct.Struct(">h")


def read_version(data: bytes) -> int:
    """Return the version to read the data with. A future version begins with all fields of the
    versions before it, so it is read as the newest known one."""
    if len(data) < _VERSION.size:
        raise MalformedMessage("a consumer's metadata are too short to hold their version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"a consumer's metadata have version {version}")
    return min(int(version), VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return decoder(ConsumerProtocolSubscription, read_version(data))(data, _VERSION.size)[0]


def read_topics(data: bytes) -> list[str]:
    """Return the topics of a subscription. Fields after them are not read and may be malformed."""
    read_version(data)
    return decoder(ConsumerProtocolSubscription, 0)(data, _VERSION.size)[0].topics


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode an assignment. Empty bytes mean no partitions: the member never synced, or its leader
    left it out."""
    if not data:
        return ConsumerProtocolAssignment()
    return decoder(ConsumerProtocolAssignment, read_version(data))(data, _VERSION.size)[0]


def write(
    message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = VERSION_MAX
) -> bytes:
    """Encode a message; readers of older versions skip the fields they do not know."""
    chunks = encoder(type(message), version)(message)
    return _VERSION.pack(version) + b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]
