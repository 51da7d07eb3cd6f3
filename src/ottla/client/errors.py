"""The errors of clients.

    ClientError
    ├── BadAddress            a bootstrap text that is not HOST:PORT
    ├── BadSetting            a setting that does not exist, or a value it cannot have
    ├── Unreachable           no connection to an address could be made
    │   └── NoBrokerReachable     ... to none of the bootstrap addresses
    ├── TlsFailed             a certificate that is not trusted, a file that is not one, ...
    ├── AuthenticationFailed  the broker does not accept the client's credentials
    ├── ConnectionLost        the connection ended with requests pending
    ├── RequestTimedOut       the broker did not answer in time
    ├── BadResponse           the peer sent what the protocol does not allow: perhaps not a broker
    ├── UnsupportedVersion    no version of a request that both sides know
    ├── TopicMissing          the cluster has no such topic, or no such partition
    ├── GroupMissing          the cluster has no such group
    ├── GroupActive           a group has members, and would overrule the change
    ├── DeliveryFailed        records that were given to the producer were not delivered
    ├── DeliveryTimedOut      ... because delivery_timeout_ms has passed
    ├── ProducerClosed        ... because the producer was closed; or `send` to a closed producer
    ├── BufferExhausted       no room for a record within max_block_ms
    ├── RecordTooLarge        a record that is larger than a request of this producer may be
    ├── NotBytes              a key, value or header that is not bytes, without a serializer
    ├── MissingExtra          a call needs an optional dependency
    ├── BadColumn             Arrow data with a missing or unsuitable column
    ├── IllegalState          a call that does not fit the state of the client
    ├── Wakeup                ends a waiting call of a consumer after `wakeup()`
    ├── HandlerCancelled      a handler of `process` ended with a CancelledError of its own
    ├── CommitFailed          offsets were not committed: the group has given the partitions away
    │   └── CommitInterrupted     ... or is about to: poll, and commit again what is still assigned
    ├── PositionTimedOut      the position of a partition was not found in time
    ├── PartitionUnreadable   a consumer cannot go on with a partition until the application seeks
    │   ├── NoOffsetForPartition       nothing is committed, and auto_offset_reset is none
    │   ├── OffsetOutOfRange           retention removed it, or it is after the end
    │   ├── LogTruncation              a new leader does not have what was read
    │   ├── UnreadableBatch            a damaged batch, or one that cannot be decoded
    │   └── RecordDeserializationError the application's deserializer raised
    └── TransactionError
        ├── TransactionStateError     a call that does not fit the state of the transaction
        ├── TransactionFailed         it can only be aborted; then the producer goes on
        ├── TransactionFatal          this producer can only be closed
        │   └── ProducerFenced            ... because another one has its transactional id
        ├── TransactionTimedOut       no response in time: the same call may be made again
        ├── TransactionAborted        records whose transaction was aborted before they were sent
        └── PreparedTransactionLost   it has ended in another way than requested

An error code in a broker's response is an `ottla.protocol.errors.KafkaError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from ottla.network.errors import Address as Address
from ottla.network.errors import AuthenticationFailed as AuthenticationFailed
from ottla.network.errors import BadResponse as BadResponse
from ottla.network.errors import ClientError as ClientError
from ottla.network.errors import ConnectionLost as ConnectionLost
from ottla.network.errors import RequestTimedOut as RequestTimedOut
from ottla.network.errors import TlsFailed as TlsFailed
from ottla.network.errors import Unreachable as Unreachable
from ottla.network.errors import UnsupportedVersion as UnsupportedVersion
from ottla.network.errors import show_address as show_address

if TYPE_CHECKING:
    from ottla.client.values import TopicPartition


def continued(text: str, more: str, mark: str = ".") -> str:
    """Return `text`, then `more`, with `mark` in between unless `text` ends with a mark of its own:
    it may be a question, or a broker's sentence."""
    return f"{text} {more}" if text.endswith((".", "?", "!")) else f"{text}{mark} {more}"


class BadAddress(ClientError):
    """An address that cannot be parsed."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not an address; write HOST:PORT, for example localhost:9092")


class BadSetting(ClientError, ValueError):
    """A setting that does not exist, or has a value that is not allowed."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class NoBrokerReachable(Unreachable):
    """None of the known addresses answers; `failures` has the reason of each."""

    def __init__(self, failures: Sequence[Exception]) -> None:
        self.failures = list(failures)
        self.timed_out = False
        reasons = dict.fromkeys(str(failure) for failure in failures)
        told = reduce(partial(continued, mark=";"), reasons) if reasons else "no broker is known"
        ClientError.__init__(self, told)


class TopicMissing(ClientError):
    """There is no topic with this name, or no partition with this number."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        if partition is None:
            super().__init__(f"there is no topic {topic!r}; create it, or check its name")
        else:
            super().__init__(f"topic {topic!r} has no partition {partition}")
        self.topic = topic
        self.partition = partition


class GroupMissing(ClientError):
    """There is no group with this name."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"there is no group {group_id!r}; `ottla groups list` shows those there are"
        )
        self.group_id = group_id


class GroupActive(ClientError):
    """The group has members, which would overrule the change or be disturbed by it."""

    def __init__(self, group_id: str, state: str | None = None, members: int = 0) -> None:
        now = f"is {state} with {members} member(s)" if state else "has got members meanwhile"
        super().__init__(
            f"group {group_id!r} {now}; stop its consumers first, or wait until their session ends"
        )
        self.group_id = group_id


class DeliveryFailed(ClientError):
    """Records of a partition were not stored; `cause` says why."""

    def __init__(self, topic: str, partition: int, cause: Exception) -> None:
        fate = "were not delivered"
        if isinstance(cause, ProducerClosed) and cause.may_have_arrived:
            fate = "have no known outcome"
        super().__init__(f"records for {topic}-{partition} {fate}: {cause}")
        self.topic = topic
        self.partition = partition
        self.cause = cause


class DeliveryTimedOut(ClientError, TimeoutError):
    """Records were not acknowledged within `delivery_timeout_ms`. If they were sent in a request,
    it is unknown whether they were stored."""

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
    """The producer was closed before the record had its outcome."""

    def __init__(
        self, problem: str = "the producer is closed", *, may_have_arrived: bool = False
    ) -> None:
        super().__init__(problem)
        self.may_have_arrived = may_have_arrived
        """True if the record was sent in a request that had no response."""


class BufferExhausted(ClientError, TimeoutError):
    """`send` found no room in the buffer within `max_block_ms`."""

    def __init__(self, wanted: int, buffer_memory: int, waited_ms: int) -> None:
        super().__init__(
            f"no room for a record of {wanted} bytes within max_block_ms ({waited_ms}): records "
            f"are given faster than brokers take them; give fewer at a time, or raise "
            f"buffer_memory ({buffer_memory}) or max_block_ms"
        )


class RecordTooLarge(ClientError, ValueError):
    """A record is larger than a setting allows."""

    def __init__(self, size: int, setting: str, limit: int) -> None:
        super().__init__(
            f"the record needs {size} bytes, which is more than {setting} ({limit}); make it "
            f"smaller, or raise {setting} (and the topic's max.message.bytes with it)"
        )
        self.size = size


class NotBytes(ClientError, TypeError):
    """A key, value or header is not bytes, and no serializer is set."""

    def __init__(self, what: str, value: object) -> None:
        hint = f"; set {what}_serializer" if what in ("key", "value") else ""
        if isinstance(value, str):
            hint = f": write .encode(){', or set ' + what + '_serializer' if hint else ''}"
        super().__init__(f"the {what} is {type(value).__name__}, not bytes{hint}")


class MissingExtra(ClientError, ImportError):
    """A call needs a package that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'ottla[{extra}]'")


class BadColumn(ClientError, ValueError):
    """A column of Arrow data is missing or of a type that cannot be sent."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"column {name!r}: {problem}")
        self.name = name


class IllegalState(ClientError):
    """A call that is not allowed in this state; nothing has been done."""


class CommitFailed(ClientError):
    """Offsets were not committed. The new owner of the partitions reads again what was read since
    the last commit."""


class CommitInterrupted(CommitFailed):
    """Offsets were not committed, because the group is rebalancing."""


class Wakeup(ClientError):
    """`wakeup()` was called while the consumer waited."""

    def __init__(self) -> None:
        super().__init__("wakeup() was called")


class HandlerCancelled(ClientError):
    """A handler ended with `asyncio.CancelledError`. It is raised as another exception, because
    otherwise `process` itself would seem to be cancelled."""

    def __init__(self) -> None:
        super().__init__(
            "the handler ended with asyncio.CancelledError, though nobody cancelled process(): "
            "something it waited for was cancelled"
        )


class PositionTimedOut(ClientError, TimeoutError):
    """The position of a partition was not found in time."""

    def __init__(self, partition: TopicPartition, waited_ms: float) -> None:
        super().__init__(
            f"{partition}: no leader or coordinator told a position within {waited_ms:.0f} ms; "
            "ask again, or seek"
        )
        self.topic_partition = partition


class PartitionUnreadable(ClientError):
    """Every poll raises it again until the application seeks; other partitions go on meanwhile.

    `offset` is the position; `next_offset` is where reading could go on, None if that is unknown.
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
    """Nothing is committed, and `auto_offset_reset` is none."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            partition,
            -1,
            "no offset is committed and auto_offset_reset is none; seek, or set where to begin",
        )


class OffsetOutOfRange(PartitionUnreadable):
    """The log does not hold the position, and `auto_offset_reset` is none."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            partition,
            offset,
            "the log does not hold this offset, and auto_offset_reset is none; seek to one it holds"
            " (beginning_offsets and end_offsets tell which)",
        )


class LogTruncation(PartitionUnreadable):
    """The leader lacks records that were read, and `auto_offset_reset` is none."""

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
    """A batch is damaged or cannot be decoded; seek to `next_offset` to skip it."""


class RecordDeserializationError(PartitionUnreadable):
    """A deserializer raised; seek to `next_offset` to skip the record (KIP-334)."""

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
    """Base of the errors of transactional producers."""


class TransactionStateError(TransactionError, IllegalState):
    """A call that does not fit the state of the transaction."""


class TransactionFailed(TransactionError):
    """The transaction cannot be committed; abort it and begin again."""

    def __init__(self, transactional_id: str, cause: Exception) -> None:
        failed = f"the transaction of {transactional_id!r} failed: {str(cause) or repr(cause)}"
        way_on = "call abort_transaction(), then do its work again in a new one"
        super().__init__(continued(failed, way_on, ";"))
        self.cause = cause


class TransactionFatal(TransactionError):
    """The producer cannot go on; close it and create a new one."""

    def __init__(self, transactional_id: str, problem: str, cause: Exception | None = None) -> None:
        stuck = f"the producer of transactional id {transactional_id!r} cannot go on: {problem}"
        super().__init__(continued(stuck, "close it, and make a new one", ";"))
        self.cause = cause


class ProducerFenced(TransactionFatal):
    """Another producer with the same transactional id has taken over."""


class TransactionTimedOut(TransactionError, TimeoutError):
    """A call did not finish in time; it may be made again."""

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
    """A record was not sent, because its transaction was aborted before."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"not sent: the transaction of {transactional_id!r} was aborted before its turn came"
        )


class PreparedTransactionLost(TransactionError):
    """The prepared transaction cannot be ended as requested: it has ended in another way."""

    def __init__(
        self, prepared: object, *, commit: bool, found: str, was_aborted: bool = False
    ) -> None:
        wanted = "committed" if commit else "aborted"
        super().__init__(f"the prepared transaction {prepared} cannot be {wanted}: {found}")
        self.was_aborted = was_aborted
        """True if it was certainly aborted, provided that no other producer used its transactional
        id."""
