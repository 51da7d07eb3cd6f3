"""Secures connections: with or without TLS, with or without SASL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.network.connection import reason_of
from ottla.network.errors import Address, TlsFailed, Unreachable
from ottla.network.sasl_mechanisms import BeginSignIn
from ottla.runtime.network import Socket
from ottla.runtime.tls.socket import CertificateRefused, NotTls, TlsError

if TYPE_CHECKING:
    from ottla.runtime.tls.client import Context


@dataclass(frozen=True, slots=True)
class Security:
    context: Context | None = None
    mechanism: str = ""
    begin_sign_in: BeginSignIn | None = None
    trust_setting: str = "ssl_cafile"
    """The setting that says whom to trust, for messages."""

    async def secured(self, socket: Socket, address: Address) -> Socket:
        if self.context is None:
            return socket
        from ottla.runtime.tls.client import start_tls

        try:
            return await start_tls(socket, self.context, address[0])
        except TlsError as error:
            raise TlsFailed(address, explained(error, self.trust_setting)) from error
        except ConnectionError as error:
            cause = f"{reason_of(error)}; a plaintext listener does so: is security_protocol right?"
            raise Unreachable(address, cause) from error

    @property
    def hint_before_answer(self) -> str:
        """A likely cause if the broker closes a connection without any response."""
        if self.context is not None:
            return "a listener that wants a certificate of this client does so: see ssl_certfile"
        return "a listener that wants TLS does so: is security_protocol right?"

    @property
    def hint_after_introduction(self) -> str:
        if self.begin_sign_in is not None:
            return ""
        return "a listener that wants SASL does so: is security_protocol right?"


def explained(error: TlsError, trust_setting: str = "ssl_cafile") -> str:
    if isinstance(error, CertificateRefused):
        return (
            f"the broker's certificate is not accepted: {error}; {trust_setting} says whom to trust"
        )
    if isinstance(error, NotTls):
        return f"{error}; is security_protocol right?"
    return f"the peer says: {error}"


PLAINTEXT = Security()
