"""What every client can be told: where the cluster is, how patient to be, how to sign in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ottla.client.settings.base import check_choice, check_number

if TYPE_CHECKING:
    from ssl import SSLContext

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class ClientOptions(TypedDict, total=False):
    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_rack: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    connections_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    security_protocol: SecurityProtocol
    ssl_context: SSLContext | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    sasl_mechanism: SaslMechanism
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauth_token_provider: Callable[[], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    client_id: str = "ottla"
    client_rack: str = ""
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    security_protocol: SecurityProtocol = "PLAINTEXT"
    ssl_context: SSLContext | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: SaslMechanism = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_oauth_token_provider: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        for name in _DURATIONS_MS:
            check_number(name, getattr(self, name), low=0)
        check_choice(
            "security_protocol",
            self.security_protocol,
            ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        )
        check_choice(
            "sasl_mechanism",
            self.sasl_mechanism,
            ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        )


_DURATIONS_MS = (
    "request_timeout_ms",
    "default_api_timeout_ms",
    "metadata_max_age_ms",
    "connections_max_idle_ms",
    "reconnect_backoff_ms",
    "reconnect_backoff_max_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "socket_connection_setup_timeout_ms",
)
