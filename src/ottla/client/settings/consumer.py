"""What a consumer can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ottla.client.errors import BadSetting
from ottla.client.settings.base import INT32_MAX, check_choice, check_number
from ottla.client.settings.common import ClientOptions, ClientSettings

if TYPE_CHECKING:
    from ottla.client.consumer.assignors.assignor import Assignor
    from ottla.client.consumer.interceptors import ConsumerInterceptor

AutoOffsetReset = Literal["earliest", "latest", "none"]
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
    group_instance_id: str | None = None
    group_protocol: Literal["classic", "consumer"] = "classic"
    group_remote_assignor: str | None = None
    partition_assignment_strategy: Sequence[AssignorName | Assignor] = (
        "range",
        "cooperative-sticky",
    )
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    auto_offset_reset: str = "latest"
    """earliest, latest, none, or by_duration:P7D: where to begin without a committed offset."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 << 20
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1 << 20
    check_crcs: bool = True
    key_deserializer: Any = None
    value_deserializer: Any = None
    interceptors: Sequence[ConsumerInterceptor] = ()
    allow_auto_create_topics: bool = True
    exclude_internal_topics: bool = True

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
