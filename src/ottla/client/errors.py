"""What can go wrong for a client.

    ClientError
    ├── BadAddress            a bootstrap text that is not HOST:PORT
    ├── BadSetting            a setting that does not exist, or a value it cannot have
    ├── Unreachable           no connection to an address could be made
    │   └── NoBrokerReachable     ... to none of the bootstrap addresses
    ├── TlsFailed             a certificate that is not trusted, a file that is not one, ...
    ├── AuthenticationFailed  the broker does not accept who we say we are
    ├── ConnectionLost        it was there, and went away with requests open
    ├── RequestTimedOut       the broker kept silent for too long
    ├── BadResponse           the peer sent what the protocol does not allow: perhaps not a broker
    ├── UnsupportedVersion    no version of a request that both sides know
    ├── TopicMissing          the cluster has no such topic, or no such partition
    ├── GroupMissing          the cluster has no such group
    ├── GroupActive           a group has members, and would overrule the change
    ├── DeliveryFailed        records that were given to the producer and did not arrive
    ├── DeliveryTimedOut      ... because delivery_timeout_ms has passed
    ├── ProducerClosed        ... because the producer was closed; or given to a closed one
    ├── BufferExhausted       no room for a record within max_block_ms
    ├── RecordTooLarge        a record that no request of this producer could carry
    ├── NotBytes              a key, value or header that nothing turns into bytes
    ├── MissingExtra          something was asked for that needs an optional dependency
    ├── BadColumn             Arrow data whose columns are not what records are made of
    ├── IllegalState          a call that does not fit what the client is doing, or has been told
    ├── Wakeup                what a consumer's call ends with after `wakeup()`
    ├── HandlerCancelled      a handler of `process` ended with a CancelledError of its own
    ├── CommitFailed          offsets were not committed: the group has given the partitions away
    │   └── CommitInterrupted     ... or is about to: poll, and commit again what is still here
    ├── PositionTimedOut      nobody told in time where reading is to begin
    ├── PartitionUnreadable   a consumer cannot go on with a partition until it is told where
    │   ├── NoOffsetForPartition       nothing is committed, and auto_offset_reset is none
    │   ├── OffsetOutOfRange           retention removed it, or it lies behind the end
    │   ├── LogTruncation              a new leader does not have what was read
    │   ├── UnreadableBatch            a damaged batch, or one that cannot be decoded
    │   └── RecordDeserializationError the application's deserializer raised
    └── TransactionError
        ├── TransactionStateError     a call that does not fit where the transaction stands
        ├── TransactionFailed         it can only be aborted; then the producer goes on
        ├── TransactionFatal          this producer can do nothing more but be closed
        │   └── ProducerFenced            ... because another one has its transactional id
        ├── TransactionTimedOut       no answer in time: the same call may be made again
        ├── TransactionAborted        records whose transaction was aborted before they were sent
        └── PreparedTransactionLost   it has ended otherwise than it was to

An error code in a broker's answer is `ottla.protocol.errors.KafkaError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.values import TopicPartition

Address = tuple[str, int]


def show_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClientError(Exception):
    """Anything a client reports that is not an error code of the broker."""


class BadAddress(ClientError):
    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not an address; write HOST:PORT, for example localhost:9092")


class BadSetting(ClientError, ValueError):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class Unreachable(ClientError):
    def __init__(self, address: Address, cause: str) -> None:
        super().__init__(f"cannot connect to {show_address(address)}: {cause}")
        self.address = address
        self.cause = cause


class NoBrokerReachable(Unreachable):
    def __init__(self, failures: Sequence[Exception]) -> None:
        self.failures = list(failures)
        reasons = dict.fromkeys(str(failure) for failure in failures)
        ClientError.__init__(self, "; ".join(reasons) or "no broker is known")


class TlsFailed(ClientError):
    def __init__(self, address: Address | None, cause: str) -> None:
        where = f" with {show_address(address)}" if address is not None else ""
        super().__init__(f"TLS{where} failed: {cause}")
        self.address = address


class AuthenticationFailed(ClientError):
    """Not tried again: the next attempt would be refused as well, and might lock the user out."""

    def __init__(self, address: Address, mechanism: str, cause: str) -> None:
        super().__init__(f"{show_address(address)} refused to sign in by {mechanism}: {cause}")
        self.address = address
        self.mechanism = mechanism


class ConnectionLost(ClientError):
    def __init__(self, address: Address, cause: str) -> None:
        super().__init__(f"lost the connection to {show_address(address)}: {cause}")
        self.address = address


class RequestTimedOut(ClientError):
    def __init__(self, address: Address, request: str, timeout_ms: float) -> None:
        super().__init__(f"{show_address(address)} did not answer {request} within {timeout_ms} ms")
        self.address = address


class BadResponse(ClientError):
    def __init__(self, address: Address, problem: str) -> None:
        super().__init__(
            f"{show_address(address)} answered with something else than Kafka's protocol: {problem}"
        )
        self.address = address


class UnsupportedVersion(ClientError):
    def __init__(self, address: Address, request: str, ours: str, theirs: str) -> None:
        super().__init__(
            f"{show_address(address)} serves {request} {theirs}, this client speaks {ours}"
        )
        self.address = address
        self.request = request


class TopicMissing(ClientError):
    def __init__(self, topic: str, partition: int | None = None) -> None:
        if partition is None:
            super().__init__(f"there is no topic {topic!r}; create it, or check its name")
        else:
            super().__init__(f"topic {topic!r} has no partition {partition}")
        self.topic = topic
        self.partition = partition


class GroupMissing(ClientError):
    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"there is no group {group_id!r}; `ottla groups list` shows those there are"
        )
        self.group_id = group_id


class GroupActive(ClientError):
    """Somebody is in the group, and would overrule or be surprised by the change."""

    def __init__(self, group_id: str, state: str | None = None, members: int = 0) -> None:
        now = f"is {state} with {members} member(s)" if state else "has got members meanwhile"
        super().__init__(
            f"group {group_id!r} {now}; stop its consumers first, or wait until their session ends"
        )
        self.group_id = group_id


class DeliveryFailed(ClientError):
    def __init__(self, topic: str, partition: int, cause: Exception) -> None:
        fate = "were not delivered"
        if isinstance(cause, ProducerClosed) and cause.may_have_arrived:
            fate = "have no known outcome"
        super().__init__(f"records for {topic}-{partition} {fate}: {cause}")
        self.topic = topic
        self.partition = partition
        self.cause = cause


class DeliveryTimedOut(ClientError, TimeoutError):
    """Whether the records were stored is not known if a request had carried them."""

    def __init__(
        self, partition: TopicPartition, count: int, waited_ms: float, reason: str
    ) -> None:
        super().__init__(
            f"{count} record(s) for {partition} were given up {waited_ms:.0f} ms after the first "
            f"of them was sent (delivery_timeout_ms): {reason}"
        )
        self.topic_partition = partition
        self.count = count


class ProducerClosed(ClientError):
    def __init__(
        self, problem: str = "the producer is closed", *, may_have_arrived: bool = False
    ) -> None:
        super().__init__(problem)
        self.may_have_arrived = may_have_arrived
        """A request had carried the record, and was not answered."""


class BufferExhausted(ClientError, TimeoutError):
    def __init__(self, wanted: int, buffer_memory: int, waited_ms: int) -> None:
        super().__init__(
            f"no room for a record of {wanted} bytes within max_block_ms ({waited_ms}): records "
            f"are given faster than brokers take them; give fewer at a time, or raise "
            f"buffer_memory ({buffer_memory}) or max_block_ms"
        )


class RecordTooLarge(ClientError, ValueError):
    def __init__(self, size: int, setting: str, limit: int) -> None:
        super().__init__(
            f"the record needs {size} bytes, which is more than {setting} ({limit}); make it "
            f"smaller, or raise {setting} (and the topic's max.message.bytes with it)"
        )
        self.size = size


class NotBytes(ClientError, TypeError):
    def __init__(self, what: str, value: object) -> None:
        hint = f"; set {what}_serializer" if what in ("key", "value") else ""
        if isinstance(value, str):
            hint = f": write .encode(){', or set ' + what + '_serializer' if hint else ''}"
        super().__init__(f"the {what} is {type(value).__name__}, not bytes{hint}")


class MissingExtra(ClientError, ImportError):
    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'ottla[{extra}]'")


class BadColumn(ClientError, ValueError):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"column {name!r}: {problem}")
        self.name = name


class IllegalState(ClientError):
    """A call out of place; nothing has been done."""


class CommitFailed(ClientError):
    """What was read since the last commit will be read again by whoever has the partitions now."""


class CommitInterrupted(CommitFailed):
    """The group is sharing out its partitions anew."""


class Wakeup(ClientError):
    def __init__(self) -> None:
        super().__init__("wakeup() was called")


class HandlerCancelled(ClientError):
    """An exception like others, where `asyncio.CancelledError` would look as if `process` itself
    had been cancelled."""

    def __init__(self) -> None:
        super().__init__(
            "the handler ended with asyncio.CancelledError, though nobody cancelled process(): "
            "something it waited for was cancelled"
        )


class PositionTimedOut(ClientError, TimeoutError):
    def __init__(self, partition: TopicPartition, waited_ms: float) -> None:
        super().__init__(
            f"{partition}: no leader or coordinator told a position within {waited_ms:.0f} ms; "
            "ask again, or seek"
        )
        self.topic_partition = partition


class PartitionUnreadable(ClientError):
    """Every poll raises it anew until the application seeks; other partitions go on meanwhile.

    `offset` is where reading stands; `next_offset` where it could go on, None if that is unknown.
    """

    def __init__(
        self, partition: TopicPartition, offset: int, problem: str, next_offset: int | None = None
    ) -> None:
        super().__init__(f"{partition} at offset {offset}: {problem}")
        self.topic_partition = partition
        self.offset = offset
        self.next_offset = next_offset

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        return self.topic_partition.partition


class NoOffsetForPartition(PartitionUnreadable):
    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            partition,
            -1,
            "no offset is committed and auto_offset_reset is none; seek, or set where to begin",
        )


class OffsetOutOfRange(PartitionUnreadable):
    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            partition,
            offset,
            "the log does not hold this offset, and auto_offset_reset is none; seek to one it holds"
            " (beginning_offsets and end_offsets tell which)",
        )


class LogTruncation(PartitionUnreadable):
    def __init__(self, partition: TopicPartition, offset: int, diverges_at: int | None) -> None:
        known = "" if diverges_at is None else f" (its history differs from offset {diverges_at})"
        super().__init__(
            partition,
            offset,
            f"the leader does not have the records that were read before{known}, and "
            "auto_offset_reset is none; seek to where reading shall go on",
            diverges_at,
        )


class UnreadableBatch(PartitionUnreadable):
    """`next_offset` is behind the batch: seek there to leave it out."""


class RecordDeserializationError(PartitionUnreadable):
    """The record stays next; seek to `next_offset` to leave it out (KIP-334)."""

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        part: str,
        key: bytes | None,
        value: bytes | None,
        cause: Exception,
    ) -> None:
        super().__init__(
            partition,
            offset,
            f"the {part} deserializer raised {type(cause).__name__}: {cause}",
            offset + 1,
        )
        self.part = part
        self.key = key
        self.value = value
        self.cause = cause


class TransactionError(ClientError):
    """Anything that keeps a transactional producer from doing what it was told."""


class TransactionStateError(TransactionError, IllegalState):
    pass


class TransactionFailed(TransactionError):
    def __init__(self, transactional_id: str, cause: Exception) -> None:
        super().__init__(
            f"the transaction of {transactional_id!r} failed: {str(cause) or repr(cause)}; "
            "call abort_transaction(), then do its work again in a new one"
        )
        self.cause = cause


class TransactionFatal(TransactionError):
    def __init__(self, transactional_id: str, problem: str, cause: Exception | None = None) -> None:
        super().__init__(
            f"the producer of transactional id {transactional_id!r} cannot go on: {problem}; "
            "close it, and make a new one"
        )
        self.cause = cause


class ProducerFenced(TransactionFatal):
    pass


class TransactionTimedOut(TransactionError, TimeoutError):
    def __init__(
        self,
        call: str,
        within_ms: int,
        trouble: Exception | None,
        *,
        setting: str = "max_block_ms",
    ) -> None:
        seen = f" (last seen: {trouble})" if trouble is not None else ""
        super().__init__(
            f"{call} did not finish within {setting} ({within_ms}){seen}; "
            "what it began may have happened: call it again"
        )
        self.trouble = trouble


class TransactionAborted(TransactionError):
    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"not sent: the transaction of {transactional_id!r} was aborted before its turn came"
        )


class PreparedTransactionLost(TransactionError):
    def __init__(
        self, prepared: object, *, commit: bool, found: str, was_aborted: bool = False
    ) -> None:
        wanted = "committed" if commit else "aborted"
        super().__init__(f"the prepared transaction {prepared} cannot be {wanted}: {found}")
        self.was_aborted = was_aborted
        """It is known to be, if nobody but its producer had the transactional id."""
