"""Settings of the producer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ottla.client.errors import BadSetting
from ottla.client.settings.base import (
    INT32_MAX,
    check_all,
    check_choice,
    check_methods,
    check_number,
)
from ottla.client.settings.common import ClientOptions, ClientSettings

if TYPE_CHECKING:
    from ottla.client.producer.interceptors import ProducerInterceptor
    from ottla.client.producer.routing.partitioners import Partitioner, PartitionFunction

Acks = Literal[0, 1, -1, "0", "1", "-1", "all"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]


LEVELS = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
"""The levels of each codec, from the fastest to the smallest; the other codecs have none."""


class ProducerOptions(ClientOptions, total=False):
    acks: Acks
    enable_idempotence: bool
    compression_type: CompressionType | None
    compression_level: int | None
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int
    partitioner: Partitioner | PartitionFunction | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    key_serializer: Any
    value_serializer: Any
    interceptors: Sequence[ProducerInterceptor]
    allow_auto_create_topics: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    acks: Acks = "all"
    """Which replicas must have a record before it counts as sent: `all` in-sync replicas, the
    leader (1), or none (0)."""
    enable_idempotence: bool | None = None
    """None: if acks, retries and in-flight requests allow it, as in Kafka's client."""
    compression_type: CompressionType | None = "none"
    """none, gzip, snappy, lz4 or zstd, for whole batches."""
    compression_level: int | None = None
    """The compression level, on the codec's own scale; None: its default."""
    batch_size: int = 16_384
    """A batch is sent when it holds this many bytes, or after `linger_ms`."""
    linger_ms: float = 5
    """How long a batch waits for more records."""
    buffer_memory: int = 32 << 20
    """How many bytes of records may wait for delivery before `send` waits."""
    max_block_ms: int = 60_000
    """How long a call waits for room in the buffer or for metadata; 0: raises at once."""
    max_request_size: int = 1 << 20
    """The largest record and the largest request, in bytes."""
    max_in_flight_requests_per_connection: int = 5
    """How many requests to one broker may wait for a response."""
    retries: int = INT32_MAX
    """How often a batch is retried; `delivery_timeout_ms` usually ends it first."""
    delivery_timeout_ms: int = 120_000
    """The longest time from `send` until a record is delivered or has failed."""
    partitioner: Partitioner | PartitionFunction | None = None
    """Chooses the partition of a record. None: keys are hashed by murmur2 as in Java; records
    without a key stay with one partition per batch."""
    partitioner_ignore_keys: bool = False
    """Choose partitions of records with keys as if they had none."""
    partitioner_adaptive_partitioning_enable: bool = True
    """Send fewer records without a key to brokers that are slow to take them."""
    partitioner_availability_timeout_ms: int = 0
    """Send no records without a key to brokers that took nothing for this long; 0: no limit."""
    key_serializer: Any = None
    """From your key to bytes: a function of one argument, or an object with `serialize`."""
    value_serializer: Any = None
    """From your value to bytes, in the same way."""
    interceptors: Sequence[ProducerInterceptor] = ()
    """Objects that see, and may change, every record before it is serialized."""
    allow_auto_create_topics: bool = True
    """Whether sending to a missing topic may create it, if the broker allows it."""
    transactional_id: str | None = None
    """The name of this producer for transactions; a second producer with the same name fences the
    first."""
    transaction_timeout_ms: int = 60_000
    """The coordinator aborts a transaction that stays open for longer."""
    transaction_two_phase_commit_enable: bool = False
    """Prepared transactions wait for their end without a timeout (KIP-939), if the broker allows
    it."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        check_choice("acks", self.acks, (0, 1, -1, "0", "1", "-1", "all"))
        check_choice(
            "compression_type",
            self.compression_type,
            (None, "none", "gzip", "snappy", "lz4", "zstd"),
        )
        for name in ("batch_size", "linger_ms", "buffer_memory", "max_block_ms", "retries"):
            check_number(name, getattr(self, name), low=0)
        check_number("max_request_size", self.max_request_size, low=0, high=INT32_MAX)
        check_number(
            "max_in_flight_requests_per_connection",
            self.max_in_flight_requests_per_connection,
            low=1,
        )
        check_number("transaction_timeout_ms", self.transaction_timeout_ms, low=1)
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise BadSetting(
                "delivery_timeout_ms",
                f"{self.delivery_timeout_ms} is less than linger_ms + request_timeout_ms "
                f"({self.linger_ms} + {self.request_timeout_ms}): no request could end in time",
            )
        check_all("interceptors", self.interceptors, ("on_send", "on_acknowledgement"))
        if self.partitioner is not None and not callable(self.partitioner):
            check_methods("partitioner", self.partitioner, ("partition",))
        self._check_level()
        self._check_idempotence()

    def _check_level(self) -> None:
        limits = LEVELS.get(self.compression_type or "none")
        if self.compression_level is not None and limits is not None:
            check_number("compression_level", self.compression_level, low=limits[0], high=limits[1])

    def _check_idempotence(self) -> None:
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise BadSetting("enable_idempotence", "a transactional producer needs it")
        if not (self.enable_idempotence or self.transactional_id is not None):
            return
        for name, met, needed in (
            ("acks", self.required_acks == -1, "all"),
            ("retries", self.retries > 0, "more than 0"),
            (
                "max_in_flight_requests_per_connection",
                self.max_in_flight_requests_per_connection <= 5,
                "at most 5",
            ),
        ):
            if not met:
                raise BadSetting(name, f"an idempotent producer needs {needed}")

    @property
    def required_acks(self) -> int:
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def is_idempotent(self) -> bool:
        if self.transactional_id is not None:
            return True
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return (
            self.required_acks == -1
            and self.retries > 0
            and self.max_in_flight_requests_per_connection <= 5
        )
