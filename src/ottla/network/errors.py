"""The errors of connections. `ottla.network.errors` has the whole tree of a client's errors."""

from __future__ import annotations

Address = tuple[str, int]


def show_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClientError(Exception):
    """Anything a client reports that is not an error code of the broker."""


class Unreachable(ClientError):
    """No connection could be made to this address."""

    def __init__(self, address: Address, cause: str, *, timed_out: bool = False) -> None:
        super().__init__(f"cannot connect to {show_address(address)}: {cause}")
        self.address = address
        self.cause = cause
        self.timed_out = timed_out


class TlsFailed(ClientError):
    """TLS could not be set up, for example because a certificate is not trusted."""

    def __init__(self, address: Address | None, cause: str) -> None:
        where = f" with {show_address(address)}" if address is not None else ""
        super().__init__(f"TLS{where} failed: {cause}")
        self.address = address


class AuthenticationFailed(ClientError):
    """The broker refused the credentials. This is not retried: it would be refused again, and might
    lock the user out."""

    def __init__(self, address: Address, mechanism: str, cause: str) -> None:
        super().__init__(f"{show_address(address)} refused to sign in by {mechanism}: {cause}")
        self.address = address
        self.mechanism = mechanism


class ConnectionLost(ClientError):
    """The connection ended while a request was pending."""

    def __init__(self, address: Address, cause: str) -> None:
        super().__init__(f"lost the connection to {show_address(address)}: {cause}")
        self.address = address


class RequestTimedOut(ClientError):
    """A broker did not answer a request in time."""

    def __init__(self, address: Address, request: str, timeout_ms: float) -> None:
        super().__init__(f"{show_address(address)} did not answer {request} within {timeout_ms} ms")
        self.address = address


class BadResponse(ClientError):
    """The server at this address does not speak Kafka's protocol."""

    def __init__(self, address: Address, problem: str) -> None:
        super().__init__(
            f"{show_address(address)} answered with something else than Kafka's protocol: {problem}"
        )
        self.address = address


class UnsupportedVersion(ClientError):
    """The broker supports no version of a request that this client supports."""

    def __init__(self, address: Address, request: str, ours: str, theirs: str) -> None:
        super().__init__(
            f"{show_address(address)} serves {request} {theirs}, this client speaks {ours}"
        )
        self.address = address
        self.request = request
