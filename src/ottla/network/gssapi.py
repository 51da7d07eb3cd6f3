"""GSSAPI (RFC 4752), the client's side: signs in with a ticket of Kerberos."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.network.sasl_mechanisms import BeginSignIn, Mechanism, NoToken, Refused
from ottla.runtime.kerberos import Context, KerberosError, initiate

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime

_NO_LAYER: Final = 1
_AGREED: Final = bytes([_NO_LAYER, 0, 0, 0])


class Gssapi:
    def __init__(self, context: Context, first: bytes, runtime: Runtime) -> None:
        self._context = context
        self._first = first
        self._runtime = runtime
        self._has_agreed = False

    def begin(self) -> bytes:
        return self._first

    async def reply(self, challenge: bytes) -> bytes | None:
        if self._has_agreed:
            return None
        try:
            return await self._runtime.in_thread(self._next, challenge)
        except KerberosError as error:
            raise Refused(str(error)) from error

    def _next(self, challenge: bytes) -> bytes:
        if not self._context.is_complete:
            return self._context.step(challenge)
        offered = self._context.unwrap(challenge)
        if len(offered) != len(_AGREED) or not offered[0] & _NO_LAYER:
            raise KerberosError("the broker wants a security layer; use SASL_SSL instead")
        self._has_agreed = True
        return self._context.wrap(_AGREED)


def signing_in_with_ticket(service: str, principal: str | None, keytab: str | None) -> BeginSignIn:
    """Return the beginning of each sign-in. Without a keytab, with the ticket of `kinit`.

    One begins at a time, also while others have given up waiting: a server of Kerberos that does
    not answer holds one thread, not all of them."""
    running: asyncio.Future[tuple[Context, bytes]] | None = None

    def begun(host: str) -> tuple[Context, bytes]:
        context = initiate(service, host, principal, keytab)
        return context, context.step(None)

    async def begin(runtime: Runtime, host: str) -> Mechanism:
        nonlocal running
        while running is not None and not running.done():
            await asyncio.wait([running])
        running = asyncio.ensure_future(runtime.in_thread(begun, host))
        running.add_done_callback(_seen)
        try:
            context, first = await asyncio.shield(running)
        except KerberosError as error:
            raise NoToken(f"Kerberos: {error}", is_final=False) from error
        return Gssapi(context, first, runtime)

    return begin


def _seen(done: asyncio.Future[tuple[Context, bytes]]) -> None:
    """Whoever waited for it may have given up."""
    if not done.cancelled():
        done.exception()
