"""Kerberos (GSSAPI), by the package `gssapi`, which is an extra: `pip install ottla[gssapi]`.

Everything here takes time: it reads files and may ask a server, so call it in a thread.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

HOW_TO_INSTALL: Final = "Kerberos needs the extra gssapi: pip install 'ottla[gssapi]'"


class KerberosError(Exception):
    """What Kerberos says. It shows no secret."""


def is_installed() -> bool:
    return find_spec("gssapi") is not None


def _gssapi() -> Any:
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise KerberosError(f"{HOW_TO_INSTALL} ({error})") from error
    return gssapi


@cache
def _at_once() -> Any:
    """Return the class of contexts whose errors are raised where they come about."""
    kind: Any = type("SecurityContext", (_gssapi().SecurityContext,), {})
    kind.__DEFER_STEP_ERRORS__ = False  # its metaclass would overrule one of the class body
    return kind


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


class Context:
    """One exchange of tokens with a peer."""

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        """The principal that signs in."""
        return str(self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes:
        """Take the peer's token and return the next; empty if none is needed. Raises
        `KerberosError`."""
        try:
            return bytes(self._context.step(token) or b"")
        except _gssapi().exceptions.GSSError as error:
            raise KerberosError(_said(error)) from None

    def wrap(self, message: bytes) -> bytes:
        """Sign, without encryption."""
        try:
            return bytes(self._context.wrap(message, False).message)
        except _gssapi().exceptions.GSSError as error:
            raise KerberosError(_said(error)) from None

    def unwrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(message).message)
        except _gssapi().exceptions.GSSError as error:
            raise KerberosError(_said(error)) from None


class Acceptor:
    """Accepts clients as the principal of a keytab, which is read for each of them."""

    def __init__(self, principal: str, keytab: str) -> None:
        """Raises `KerberosError` if the keytab cannot be used."""
        gssapi = _gssapi()
        try:
            self._credentials = _credentials(gssapi, principal, "accept", {"keytab": keytab})
            found = gssapi.Name("any", gssapi.NameType.kerberos_principal)
            self.default_realm = str(found.canonicalize(gssapi.MechType.kerberos)).rpartition("@")[
                2
            ]
        except gssapi.exceptions.GSSError as error:
            raise KerberosError(f"{keytab}: {_said(error)}") from None

    def accept(self) -> Context:
        gssapi = _gssapi()
        try:
            return Context(_at_once()(creds=self._credentials, usage="accept"))
        except gssapi.exceptions.GSSError as error:
            raise KerberosError(_said(error)) from None


def initiate(service: str, host: str, principal: str | None, keytab: str | None) -> Context:
    """Begin to sign in to a service. Without a keytab, with the ticket of `kinit`. Raises
    `KerberosError`."""
    gssapi = _gssapi()
    try:
        target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        store = None
        if keytab is not None:
            # Tickets are got with the keytab, kept in memory, and renewed by the library.
            cache = f"MEMORY:ottla-{os.getpid()}-{principal or ''}-{abs(hash(keytab))}"
            store = {"client_keytab": keytab, "ccache": cache}
        credentials = _credentials(gssapi, principal, "initiate", store)
        return Context(
            _at_once()(
                name=target,
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=(
                    gssapi.RequirementFlag.mutual_authentication,
                    gssapi.RequirementFlag.integrity,
                ),
            )
        )
    except gssapi.exceptions.GSSError as error:
        raise KerberosError(_said(error)) from None


def _credentials(
    gssapi: Any, principal: str | None, usage: str, store: dict[str, str] | None
) -> Any:
    name = None
    if principal is not None:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    # Kerberos alone: otherwise a token could negotiate another mechanism (SPNEGO).
    mechanisms = [gssapi.MechType.kerberos]
    return gssapi.Credentials(name=name, usage=usage, store=store, mechs=mechanisms)
