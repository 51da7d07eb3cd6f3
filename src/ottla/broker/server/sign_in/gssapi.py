"""GSSAPI (RFC 4752), the server's side: Kerberos says who the client is.

    tokens of Kerberos, until both sides know each other
    the broker offers to go on without a security layer; the client agrees

Kerberos reads files and computes, so each token is prepared in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.server.sign_in.mechanisms import PREPARED_BYTES_MAX, InvalidCredentials
from ottla.runtime.kerberos import Context, KerberosError
from ottla.security.kerberos_rules import NoRuleApplies

if TYPE_CHECKING:
    from ottla.runtime.kerberos import Acceptor
    from ottla.security.kerberos_rules import KerberosRules

_NO_LAYER: Final = 1
_OFFER: Final = bytes([_NO_LAYER, 0, 0, 0])


class _Prepared(NamedTuple):
    answer: bytes = b""
    failure: str = ""


class GssapiServer:
    expires_at_ms: int | None = None
    is_by_token = False

    def __init__(self, acceptor: Acceptor, rules: KerberosRules) -> None:
        self._acceptor = acceptor
        self._rules = rules
        self._context: Context | None = None
        self._is_offered = False
        self._is_agreed = False
        self._prepared: _Prepared | None = None
        self.user = ""
        self.is_complete = False

    def prepare(self, token: bytes) -> None:
        """Do what takes long; `evaluate` of the same token then tells the result."""
        try:
            if len(token) > PREPARED_BYTES_MAX:
                raise KerberosError(f"a token of {len(token)} bytes")
            self._prepared = _Prepared(self._answer(token))
        except (KerberosError, NoRuleApplies) as error:
            self._prepared = _Prepared(failure=str(error))

    def evaluate(self, token: bytes) -> bytes:
        if self._prepared is None:
            self.prepare(token)
        prepared, self._prepared = self._prepared, None
        assert prepared is not None
        if prepared.failure:
            raise InvalidCredentials(prepared.failure)
        self.is_complete = self._is_agreed
        return prepared.answer

    def _answer(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = self._acceptor.accept()
        context = self._context
        if not context.is_complete:
            answer = context.step(token)
            return answer if answer or not context.is_complete else self._offer(context)
        if not self._is_offered:
            if token:
                raise KerberosError("a token after the last one")
            return self._offer(context)
        agreed = context.unwrap(token)
        if len(agreed) < len(_OFFER) or not agreed[0] & _NO_LAYER:
            raise KerberosError("the client wants a security layer, which is not offered")
        self.user = context.initiator
        self.user = self._rules.name_of(self.user, self._acceptor.default_realm)
        self._is_agreed = True
        return b""

    def _offer(self, context: Context) -> bytes:
        self._is_offered = True
        return context.wrap(_OFFER)
