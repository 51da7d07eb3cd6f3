"""Settings of all clients: the cluster's address, timeouts, TLS and authentication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ottla.client.errors import BadSetting
from ottla.client.network.addresses import parse_addresses
from ottla.client.settings.base import check_choice, check_number

if TYPE_CHECKING:
    from ssl import SSLContext

    from ottla.security.oauth.unsecured import UnsecuredTokens

HOW_TO_WRITE = "write 'localhost:9092', or several in a list"

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]


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
    sasl_oauth_token_provider: Callable[[], Any] | UnsecuredTokens | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_extensions: Mapping[str, str] | str
    sasl_oauthbearer_ssl_cafile: str | None
    sasl_oauthbearer_ssl_cafile_password: str | None
    sasl_oauthbearer_ssl_certfile: str | None
    sasl_oauthbearer_ssl_password: str | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_login_connect_timeout_ms: int
    sasl_login_read_timeout_ms: int
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


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
    ssl_cafile_password: str | None = field(default=None, repr=False)
    """The password of a PKCS12 `ssl_cafile`."""
    ssl_certfile: str | None = None
    """This client's own certificate (PEM, or PKCS12 with its key), if brokers require one."""
    ssl_keyfile: str | None = None
    """The certificate's key (PEM)."""
    ssl_password: str | None = field(default=None, repr=False)
    """The password of the key, or of a PKCS12 `ssl_certfile`."""
    ssl_check_hostname: bool = True
    """Whether the broker's certificate must match the host name."""
    sasl_mechanism: SaslMechanism = "PLAIN"
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI."""
    sasl_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_password: str | None = field(default=None, repr=False)
    """For PLAIN and SCRAM."""
    sasl_token_auth: bool = False
    """For SCRAM: whether the client signs in with a delegation token. The user name is its id, the
    password its HMAC in Base64."""
    sasl_oauth_token_provider: Callable[[], Any] | UnsecuredTokens | None = None
    """For OAUTHBEARER: a function or coroutine function that returns a token; called whenever one
    is needed."""
    sasl_oauthbearer_token_endpoint_url: str | None = None
    """For OAUTHBEARER, instead of a function: where to get tokens, `https://...`, by client
    credentials. `file:/path` is a file with a token, which somebody else keeps fresh."""
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    """Who this client is to the identity provider."""
    sasl_oauthbearer_client_credentials_client_secret: str | None = field(default=None, repr=False)
    """Its secret there."""
    sasl_oauthbearer_scope: str | None = None
    """The scope to ask for."""
    sasl_oauthbearer_header_urlencode: bool = False
    """Whether id and secret are URL-encoded for the provider, as RFC 6749 says and few do."""
    sasl_oauthbearer_extensions: Mapping[str, str] | str = ""
    """SASL extensions for the broker, as a mapping or as "name=value,name=value"."""
    sasl_oauthbearer_ssl_cafile: str | None = None
    """The certificates to trust at the provider (PEM or PKCS12); by default the system's."""
    sasl_oauthbearer_ssl_cafile_password: str | None = field(default=None, repr=False)
    """The password of a PKCS12 `sasl_oauthbearer_ssl_cafile`."""
    sasl_oauthbearer_ssl_certfile: str | None = None
    """This client's own certificate and its key, in one file, if the provider requires one."""
    sasl_oauthbearer_ssl_password: str | None = field(default=None, repr=False)
    """The password of that file."""
    sasl_kerberos_service_name: str | None = None
    """For GSSAPI: the first part of the brokers' principals, such as kafka."""
    sasl_kerberos_principal: str | None = None
    """For GSSAPI: this client's principal; by default that of its tickets, or of its keytab."""
    sasl_kerberos_keytab: str | None = None
    """For GSSAPI: a file with the key of the principal; by default the ticket of `kinit` counts."""
    sasl_login_connect_timeout_ms: int = 10_000
    """How long the provider may take to accept a connection."""
    sasl_login_read_timeout_ms: int = 10_000
    """How long the provider may take for all of its answer."""
    sasl_login_retry_backoff_ms: int = 100
    """The pause before a failed request for a token is sent again; doubles each time."""
    sasl_login_retry_backoff_max_ms: int = 10_000
    """The longest such pause, and how long a request for a token is repeated."""
    sasl_login_refresh_window_factor: float = 0.8
    """The part of a token's life after which it is replaced, 0.5 to 1."""
    sasl_login_refresh_window_jitter: float = 0.05
    """The random part that is added, 0 to 0.25."""
    sasl_login_refresh_min_period_seconds: int = 60
    """The least time between two requests for tokens that live long enough, 0 to 900."""
    sasl_login_refresh_buffer_seconds: int = 300
    """What is left of such a token's life when it is replaced, 0 to 3600."""

    def __post_init__(self) -> None:
        self._check_bootstrap()
        for name in _DURATIONS_MS:
            check_number(name, getattr(self, name), low=0)
        for name, (low, high) in _LOGIN_RANGES.items():
            check_number(name, getattr(self, name), low=low, high=high)
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
            ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
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
    "sasl_login_retry_backoff_ms",
    "sasl_login_retry_backoff_max_ms",
)
_LOGIN_RANGES: Mapping[str, tuple[float, float | None]] = {
    "sasl_login_connect_timeout_ms": (1, None),
    "sasl_login_read_timeout_ms": (1, None),
    "sasl_login_refresh_window_factor": (0.5, 1.0),
    "sasl_login_refresh_window_jitter": (0.0, 0.25),
    "sasl_login_refresh_min_period_seconds": (0, 900),
    "sasl_login_refresh_buffer_seconds": (0, 3600),
}
