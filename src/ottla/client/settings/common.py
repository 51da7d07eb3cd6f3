"""Settings of all clients: the cluster's address, timeouts, TLS and authentication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ottla.client.errors import BadSetting
from ottla.client.network.addresses import parse_addresses
from ottla.client.settings.base import check_choice, check_number

if TYPE_CHECKING:
    from ssl import SSLContext

HOW_TO_WRITE = "write 'localhost:9092', or several in a list"

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class ClientOptions(TypedDict, total=False):
    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_rack: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int
    connections_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    security_protocol: SecurityProtocol
    ssl_context: SSLContext | None
    ssl_cafile: str | None
    ssl_cafile_password: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    sasl_mechanism: SaslMechanism
    sasl_username: str | None
    sasl_password: str | None
    sasl_token_auth: bool
    sasl_oauth_token_provider: Callable[[], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    """Where to find the cluster: `host:port`, several with commas or as a list."""
    client_id: str = "ottla"
    """The name that brokers see in logs, quotas and group listings."""
    client_rack: str = ""
    """The rack of this client. Brokers with a matching `broker.rack` serve its reads (KIP-392)."""
    request_timeout_ms: int = 30_000
    """How long a request may go without a response before its connection is closed."""
    default_api_timeout_ms: int = 60_000
    """How long a call that asks the cluster is retried."""
    metadata_max_age_ms: int = 300_000
    """The age at which metadata of topics and leaders is refreshed."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = "rebootstrap"
    """If no known broker can be reached: `rebootstrap` uses bootstrap_servers again."""
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    """After this long without fresh metadata all brokers are forgotten, and looked up again."""
    connections_max_idle_ms: int = 540_000
    """Connections that were not used for this long are closed."""
    reconnect_backoff_ms: int = 50
    """The pause before reconnecting to a broker after a failed connection; doubles each time."""
    reconnect_backoff_max_ms: int = 1_000
    """The longest such pause."""
    retry_backoff_ms: int = 100
    """The pause before a failed request is sent again; doubles each time."""
    retry_backoff_max_ms: int = 1_000
    """The longest such pause."""
    socket_connection_setup_timeout_ms: int = 10_000
    """How long opening a connection may take, including TLS."""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ssl_context: SSLContext | None = None
    """Your own context; the other `ssl_` settings are then ignored."""
    ssl_cafile: str | None = None
    """The certificates to trust (PEM or PKCS12); by default the system's."""
    ssl_cafile_password: str | None = None
    """The password of a PKCS12 `ssl_cafile`."""
    ssl_certfile: str | None = None
    """This client's own certificate (PEM, or PKCS12 with its key), if brokers require one."""
    ssl_keyfile: str | None = None
    """The certificate's key (PEM)."""
    ssl_password: str | None = None
    """The password of the key, or of a PKCS12 `ssl_certfile`."""
    ssl_check_hostname: bool = True
    """Whether the broker's certificate must match the host name."""
    sasl_mechanism: SaslMechanism = "PLAIN"
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    sasl_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_password: str | None = None
    """For PLAIN and SCRAM."""
    sasl_token_auth: bool = False
    """For SCRAM: whether the client signs in with a delegation token. The user name is its id, the
    password its HMAC in Base64."""
    sasl_oauth_token_provider: Callable[[], Any] | None = None
    """For OAUTHBEARER: a function or coroutine function that returns a token; called whenever one
    is needed."""

    def __post_init__(self) -> None:
        self._check_bootstrap()
        for name in _DURATIONS_MS:
            check_number(name, getattr(self, name), low=0)
        check_choice(
            "security_protocol",
            self.security_protocol,
            ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        )
        check_choice(
            "metadata_recovery_strategy", self.metadata_recovery_strategy, ("rebootstrap", "none")
        )
        check_choice(
            "sasl_mechanism",
            self.sasl_mechanism,
            ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        )

    def _check_bootstrap(self) -> None:
        given = self.bootstrap_servers
        if isinstance(given, (bytes, Mapping)) or not isinstance(given, (str, Iterable)):
            raise BadSetting("bootstrap_servers", f"{given!r} is no address; {HOW_TO_WRITE}")
        if not isinstance(given, str) and not all(isinstance(one, str) for one in given):
            raise BadSetting("bootstrap_servers", f"{given!r} is no list of str; {HOW_TO_WRITE}")
        parse_addresses(given)


_DURATIONS_MS = (
    "request_timeout_ms",
    "default_api_timeout_ms",
    "metadata_max_age_ms",
    "metadata_recovery_rebootstrap_trigger_ms",
    "connections_max_idle_ms",
    "reconnect_backoff_ms",
    "reconnect_backoff_max_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "socket_connection_setup_timeout_ms",
)
