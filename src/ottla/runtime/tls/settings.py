"""The settings of TLS: where keys and certificates are, and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pem:
    """Keys and certificates: PEM text, in a file or given as it is, or a store of Java's."""

    setting: str
    """The setting that has it, for messages."""
    path: str = ""
    text: str = field(default="", repr=False)
    store_password: str | None = field(default=None, repr=False)
    """The password of a Java store; None for PEM."""

    def __str__(self) -> str:
        return f"{self.setting} ({self.path})" if self.path else self.setting


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS of a listener, and of the connections that this node makes to others by it."""

    identity: Pem | None
    """The private key and the certificate chain."""
    key_password: str = field(repr=False)
    key_password_setting: str
    trusted: Pem | None
    """The trusted certificates; None for those that the system trusts."""
    client_auth: str = "none"
    """none, requested or required."""
    versions: frozenset[str] = frozenset({"TLSv1.2", "TLSv1.3"})
    cipher_suites: tuple[str, ...] = ()
    """OpenSSL's names of suites for TLS 1.2; empty for the usual ones."""
    checks_hostname: bool = True
    may_change_subject: bool = False
    may_change_alternative_names: bool = False
    principal_rules: str = "DEFAULT"

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(pem.path for pem in (self.identity, self.trusted) if pem and pem.path)
