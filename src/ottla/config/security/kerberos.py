"""The Kerberos settings of a listener: the JAAS line of Krb5LoginModule, and `sasl.kerberos.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.config.errors import ConfigError
from ottla.config.security.listener_keys import ListenerKeys
from ottla.security.kerberos_rules import BadRule, KerberosRules

KRB5_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_MECHANISM: Final = "GSSAPI"
_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_SERVICE: Final = "sasl.kerberos.service.name"


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """A node is this principal, both to clients and to other nodes."""

    principal: str
    keytab: str
    service: str
    rules: KerberosRules = field(repr=False)


def kerberos_settings(
    keys: ListenerKeys, options: Mapping[str, str], line: str
) -> KerberosSettings:
    """`options` are those of the JAAS line, whose key is `line`. Raises `ConfigError`."""
    if options.get("useKeyTab", "").lower() != "true":
        expected = 'a node needs useKeyTab=true, storeKey=true, keyTab="..." and principal="..."'
        raise ConfigError.of(line, "[hidden]", expected)
    keytab, principal = options.get("keyTab", ""), options.get("principal", "")
    if not (keytab and principal):
        raise ConfigError.of(line, "[hidden]", "keyTab and principal must be set")
    try:
        rules = KerberosRules.parse(keys.value_for(_MECHANISM, _RULES))
    except BadRule as error:
        raise ConfigError.of(keys.name_for(_MECHANISM, _RULES), None, str(error)) from None
    return KerberosSettings(
        principal, keytab.removeprefix("file:"), _service(keys, options, line), rules
    )


def _service(keys: ListenerKeys, options: Mapping[str, str], line: str) -> str:
    of_line, of_keys = options.get("serviceName"), keys.value_for(_MECHANISM, _SERVICE)
    if of_line and of_keys and of_line != of_keys:
        expected = f"serviceName and {_SERVICE} must be the same"
        raise ConfigError.of(line, "[hidden]", expected)
    service: str | None = of_keys or of_line
    if not service:
        expected = "must be set: the first part of the principal of all brokers, such as kafka"
        raise ConfigError.of(keys.name_for(_MECHANISM, _SERVICE), None, expected)
    return service
