"""The settings of followers' fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


class FetchSettings(NamedTuple):
    wait_max_ms: int
    bytes_min: int
    partition_bytes_max: int
    response_bytes_max: int
    backoff_s: float
    timeout_ms: int
    listener: str
    """The name of the inter-broker listener."""

    @classmethod
    def of(cls, config: BrokerConfig) -> FetchSettings:
        return cls(
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.backoff.ms"] / 1000,
            config["replica.socket.timeout.ms"],
            config.inter_broker_listener_name,
        )
