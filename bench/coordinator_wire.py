"""Hand-made frames for the coordinators: groups, offset commits, producer ids.

As in `wire`, they follow the protocol's documentation; the versions are the newest with topic names
instead of ids. Groups use the classic protocol; what it carries for members is packed by the
product's own codec.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.wire import Peer, Reader, compact_text, frame, uvarint
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, write
from ottla.protocol.embedded.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription

OFFSET_COMMIT, FIND_COORDINATOR, INIT_PRODUCER_ID = 8, 10, 22
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
NOT_READY = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)
"""Errors that a broker returns for a while, before its coordinator is ready."""
GROUP_KEY, TRANSACTION_KEY = 0, 1
SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS = 45_000, 60_000
READY_TIMEOUT_S = 30.0
_NULL, _END = uvarint(0), b"\0"
_ONE = uvarint(2)  # the length of an array with one element
_MEMBER_VERSION = 1
"""The version of the subscriptions and assignments."""
_PROTOCOL = compact_text(PROTOCOL_TYPE), compact_text("range")


class Joined(NamedTuple):
    error: int
    generation: int
    leader: bytes
    member: bytes
    members: list[bytes]
    """The ids of all members; only the leader gets them."""


def compact_bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def subscription(topic: str) -> bytes:
    """Return what a consumer tells the leader of its group: it wants one topic and owns nothing."""
    return write(ConsumerProtocolSubscription(topics=[topic]), _MEMBER_VERSION)


def assignment(topic: str, partition: int) -> bytes:
    assigned = TopicPartition(topic=topic, partitions=[partition])
    return write(ConsumerProtocolAssignment(assigned_partitions=[assigned]), _MEMBER_VERSION)


def find_coordinator_frame(key: str, kind: int) -> bytes:
    """FindCoordinator v4; it also makes the broker create the coordinator's topic."""
    body = struct.pack(">b", kind) + _ONE + compact_text(key) + _END
    return frame(FIND_COORDINATOR, 4, body, flexible=True)


def parse_find_coordinator(answer: bytes) -> int:
    reader = Reader(answer, 5 + 4)
    reader.uvarint()
    reader.compact()
    reader.take(">i")
    reader.compact()
    reader.take(">i")
    return reader.take(">h")


def join_frame(group: str, member: bytes, metadata: bytes) -> bytes:
    """JoinGroup v9; an empty member id asks for one."""
    body = b"".join(
        (
            compact_text(group),
            struct.pack(">ii", SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS),
            *(compact_bytes(member), _NULL),
            *(_PROTOCOL[0], _ONE, _PROTOCOL[1], compact_bytes(metadata), _END),
            *(_NULL, _END),
        )
    )
    return frame(JOIN_GROUP, 9, body, flexible=True)


def parse_join(answer: bytes) -> Joined:
    reader = Reader(answer, 5 + 4)
    error, generation = reader.take(">h"), reader.take(">i")
    reader.compact()
    reader.compact()
    leader = reader.compact()
    reader.take(">b")
    member = reader.compact()
    members = []
    for _ in range(reader.uvarint() - 1):
        members.append(reader.compact())
        reader.compact()
        reader.compact()
        reader.take(">b")
    return Joined(error, generation, leader, member, members)


def sync_frame(
    group: str, generation: int, member: bytes, assignments: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """SyncGroup v5; only the leader sends assignments."""
    pairs = (compact_bytes(name) + compact_bytes(data) + _END for name, data in assignments)
    body = b"".join(
        (
            *(compact_text(group), struct.pack(">i", generation), compact_bytes(member), _NULL),
            *_PROTOCOL,
            *(uvarint(len(assignments) + 1), *pairs, _END),
        )
    )
    return frame(SYNC_GROUP, 5, body, flexible=True)


def parse_sync(answer: bytes) -> tuple[int, bytes]:
    """Return the error and the assignment."""
    reader = Reader(answer, 5 + 4)
    error = reader.take(">h")
    reader.compact()
    reader.compact()
    return error, reader.compact()


def heartbeat_frame(group: str, generation: int, member: bytes) -> bytes:
    body = compact_text(group) + struct.pack(">i", generation) + compact_bytes(member)
    return frame(HEARTBEAT, 4, body + _NULL + _END, flexible=True)


def leave_frame(group: str, members: Sequence[bytes]) -> bytes:
    named = (compact_bytes(member) + _NULL + _NULL + _END for member in members)
    body = compact_text(group) + uvarint(len(members) + 1) + b"".join(named) + _END
    return frame(LEAVE_GROUP, 5, body, flexible=True)


def parse_error(answer: bytes) -> int:
    """Return the error of a response that begins with it: Heartbeat, LeaveGroup, InitProducerId."""
    return Reader(answer, 5 + 4).take(">h")


def commit_frame(
    group: str, generation: int, member: bytes, topic: str, partition: int, offset: int
) -> bytes:
    """OffsetCommit v9 of one partition."""
    body = b"".join(
        (
            *(compact_text(group), struct.pack(">i", generation), compact_bytes(member), _NULL),
            *(_ONE, compact_text(topic), _ONE),
            struct.pack(">iqi", partition, offset, -1),
            *(compact_text(""), _END, _END, _END),
        )
    )
    return frame(OFFSET_COMMIT, 9, body, flexible=True)


def parse_commit(answer: bytes) -> int:
    reader = Reader(answer, 5 + 4)
    reader.uvarint()
    reader.compact()
    reader.uvarint()
    reader.take(">i")
    return reader.take(">h")


def init_producer_id_frame() -> bytes:
    """InitProducerId v4 of an idempotent producer without transactions."""
    body = _NULL + struct.pack(">iqh", 60_000, -1, -1) + _END
    return frame(INIT_PRODUCER_ID, 4, body, flexible=True)


def parse_init_producer_id(answer: bytes) -> tuple[int, int]:
    """Return the id and the epoch."""
    reader = Reader(answer, 5 + 4 + 2)
    return reader.take(">q"), reader.take(">h")


def ready_answer(peer: Peer, question: bytes, parse: Callable[[bytes], int]) -> bytes:
    """Return the first response without an error: a coordinator may need a moment to start."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        answer = peer.ask(question)
        code = parse(answer)
        if code == 0:
            return answer
        if code not in NOT_READY or time.monotonic() > deadline:
            raise RuntimeError(f"the coordinator answers with error {code}")
        time.sleep(0.05)


def await_coordinator(port: int, key: str, kind: int = GROUP_KEY) -> None:
    with Peer(port) as peer:
        ready_answer(peer, find_coordinator_frame(key, kind), parse_find_coordinator)
