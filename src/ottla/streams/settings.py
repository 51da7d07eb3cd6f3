"""The name of an application, and how it connects to its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    app_id: str
    bootstrap_servers: str
    dead_letters: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the clients, in Kafka's names: `{"kafka.security.protocol": "SSL"}`."""

    def to_spark(self) -> dict[str, str]:
        """Return the settings as options of the format `ottla`."""
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **self.options}
