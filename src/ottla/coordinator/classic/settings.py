"""What the broker's configuration says about classic groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.protocol.messages.join_group import JoinGroupRequest

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an empty group waits for more members."""
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 2_147_483_647
    record_bytes_max: int = 1_048_588
    """A generation with its metadata and assignments must fit into one batch."""
    new_member_join_timeout_ms: int = NEW_MEMBER_JOIN_TIMEOUT_MS
    """A new member cannot send heartbeats while its join waits; after this time it is given up."""

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        return cls(
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            session_timeout_ms_min=config["group.min.session.timeout.ms"],
            session_timeout_ms_max=config["group.max.session.timeout.ms"],
            members_max=config["group.max.size"],
            record_bytes_max=config["message.max.bytes"],
        )

    def allows_session_timeout(self, request: JoinGroupRequest) -> bool:
        lowest, highest = self.session_timeout_ms_min, self.session_timeout_ms_max
        return lowest <= request.session_timeout_ms <= highest
