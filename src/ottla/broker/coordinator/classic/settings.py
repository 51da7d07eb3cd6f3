"""Settings of classic groups, from the broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an empty group waits for more members."""
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 2_147_483_647
    record_bytes_max: int = 1_048_588
    """The size limit of a batch: a generation with its metadata and assignments must fit into
    one."""
    new_member_join_timeout_ms: int = NEW_MEMBER_JOIN_TIMEOUT_MS
    """A new member cannot send heartbeats while its join waits; it is removed after this time."""

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        return cls(
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            session_timeout_ms_min=config["group.min.session.timeout.ms"],
            session_timeout_ms_max=config["group.max.session.timeout.ms"],
            members_max=config["group.max.size"],
            record_bytes_max=config["message.max.bytes"],
        )
