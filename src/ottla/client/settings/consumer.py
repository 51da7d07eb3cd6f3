"""Settings of the consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ottla.client.errors import BadSetting
from ottla.client.settings.base import INT32_MAX, check_all, check_choice, check_number
from ottla.client.settings.common import ClientOptions, ClientSettings

if TYPE_CHECKING:
    from ottla.client.consumer.assignors.assignor import Assignor
    from ottla.client.consumer.interceptors import ConsumerInterceptor

AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]


class ConsumerOptions(ClientOptions, total=False):
    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str | None
    partition_assignment_strategy: Sequence[AssignorName | Assignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    key_deserializer: Any
    value_deserializer: Any
    interceptors: Sequence[ConsumerInterceptor]
    allow_auto_create_topics: bool
    exclude_internal_topics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    group_id: str | None = None
    """The group to share partitions and commit offsets with; None: read alone."""
    group_instance_id: str | None = None
    """A name that survives restarts: a static member rejoins without a rebalance."""
    group_protocol: Literal["classic", "consumer"] = "classic"
    """`classic`, or `consumer` for the protocol of KIP-848."""
    group_remote_assignor: str | None = None
    """`consumer` protocol only: which of the broker's assignors to use, `uniform` or `range`."""
    partition_assignment_strategy: Sequence[AssignorName | Assignor] = (
        "range",
        "cooperative-sticky",
    )
    """`classic` only: range, roundrobin, sticky, cooperative-sticky or an assignor of your own, the
    preferred one first."""
    session_timeout_ms: int = 45_000
    """`classic` only: after this long without a heartbeat the group removes this consumer."""
    heartbeat_interval_ms: int = 3_000
    """`classic` only: the interval between heartbeats."""
    max_poll_interval_ms: int = 300_000
    """The longest time between two polls; after it the consumer leaves the group."""
    max_poll_records: int = 500
    """The most records that one `poll` returns."""
    auto_offset_reset: str = "latest"
    """earliest, latest, none, or by_duration:P7D: where to begin without a committed offset."""
    enable_auto_commit: bool = True
    """Commit consumed offsets automatically."""
    auto_commit_interval_ms: int = 5_000
    """The interval between automatic commits."""
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    """`read_committed` skips records of aborted and open transactions."""
    fetch_min_bytes: int = 1
    """A broker responds when it has this many bytes, or after `fetch_max_wait_ms`."""
    fetch_max_bytes: int = 50 << 20
    """The most bytes in one response."""
    fetch_max_wait_ms: int = 500
    """How long a broker waits for `fetch_min_bytes`."""
    max_partition_fetch_bytes: int = 1 << 20
    """The most bytes of one partition in one response."""
    check_crcs: bool = True
    """Check the checksum of every batch."""
    key_deserializer: Any = None
    """From bytes to your key: a function of one argument, or an object with `deserialize`."""
    value_deserializer: Any = None
    """From bytes to your value, in the same way."""
    interceptors: Sequence[ConsumerInterceptor] = ()
    """Objects that see records before the application does, and offsets after a commit."""
    allow_auto_create_topics: bool = True
    """Whether subscribing to a missing topic may create it, if the broker allows it."""
    exclude_internal_topics: bool = True
    """Whether a pattern skips the cluster's internal topics."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        check_choice("group_protocol", self.group_protocol, ("classic", "consumer"))
        check_choice(
            "isolation_level", self.isolation_level, ("read_uncommitted", "read_committed")
        )
        for name in ("fetch_max_wait_ms", "fetch_min_bytes", "auto_commit_interval_ms"):
            check_number(name, getattr(self, name), low=0)
        for name in ("max_poll_records", "max_poll_interval_ms", "session_timeout_ms"):
            check_number(name, getattr(self, name), low=1)
        for name in ("fetch_max_bytes", "max_partition_fetch_bytes"):
            check_number(name, getattr(self, name), low=0, high=INT32_MAX)
        if self.group_protocol == "classic" and (
            self.heartbeat_interval_ms >= self.session_timeout_ms
        ):
            raise BadSetting(
                "heartbeat_interval_ms",
                f"{self.heartbeat_interval_ms} is not below session_timeout_ms "
                f"({self.session_timeout_ms}): the group would throw this consumer out",
            )
        if self.group_instance_id is not None and not self.group_instance_id:
            raise BadSetting("group_instance_id", "it is empty; leave it out or name one")
        check_all("interceptors", self.interceptors, ("on_consume", "on_commit"))
        self._check_reset()

    def _check_reset(self) -> None:
        reset = self.auto_offset_reset
        if reset not in ("earliest", "latest", "none") and not reset.startswith("by_duration:"):
            raise BadSetting(
                "auto_offset_reset",
                f"{reset!r} is none of: earliest, latest, none, by_duration:<ISO 8601 duration>",
            )

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == "read_committed"
