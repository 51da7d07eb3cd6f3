"""Translates the security settings of Java's clients into those of ours.

Java keeps names and passwords in `sasl.jaas.config`, and keys in stores: PEM files, or PKCS12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.errors import BadSetting
from ottla.security.jaas import BadJaas, parse_jaas

_SCRAM_MODULE = "ScramLoginModule"
_OAUTH_MODULE = "OAuthBearerLoginModule"
_KERBEROS_MODULE = "Krb5LoginModule"
_MODULES = ("PlainLoginModule", _SCRAM_MODULE, _OAUTH_MODULE, _KERBEROS_MODULE)
_TYPES = ("PEM", "PKCS12", "JKS")  # whatever is said, the file itself decides


def security_options(given: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """Return the options that `given` sets. `prefix` precedes names in errors."""
    found: dict[str, Any] = {}
    if jaas := given.get("sasl.jaas.config", "").strip():
        found |= _from_jaas(jaas, given, prefix)
    found |= _stores(given, prefix)
    if (algorithm := given.get("ssl.endpoint.identification.algorithm")) is not None:
        # Java turns the check off with an empty string, librdkafka with "none".
        found["ssl_check_hostname"] = algorithm.strip().lower() not in ("", "none")
    return found


def _from_jaas(text: str, given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    try:
        entry = parse_jaas(text)
    except BadJaas as error:
        raise BadSetting(f"{prefix}sasl.jaas.config", str(error)) from None
    module, pairs = entry.module.rpartition(".")[2], entry.options
    if module not in _MODULES:
        raise BadSetting(
            f"{prefix}sasl.jaas.config",
            f"{module} is none of: {', '.join(_MODULES)}; "
            "others sign in by code that runs in Java alone",
        )
    if module == _OAUTH_MODULE:
        from ottla.client.settings.java_tokens import token_options

        return token_options(pairs, given, prefix)
    if module == _KERBEROS_MODULE:
        return _ticket_options(pairs, prefix)
    missing = {"username", "password"} - pairs.keys()
    if missing:
        raise BadSetting(
            f"{prefix}sasl.jaas.config", f"it has no {' and no '.join(sorted(missing))}"
        )
    found: dict[str, Any] = {
        "sasl_username": pairs["username"],
        "sasl_password": pairs["password"],
    }
    if module == _SCRAM_MODULE and pairs.get("tokenauth", "").lower() == "true":
        found["sasl_token_auth"] = True
    return found


def _ticket_options(jaas: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Without a keytab, the ticket of `kinit` counts, as with `useTicketCache`."""
    found: dict[str, Any] = {}
    if jaas.get("useKeyTab", "").lower() == "true":
        if "keyTab" not in jaas:
            raise BadSetting(f"{prefix}sasl.jaas.config", "useKeyTab needs keyTab")
        found["sasl_kerberos_keytab"] = jaas["keyTab"].removeprefix("file:")
    if "principal" in jaas:
        found["sasl_kerberos_principal"] = jaas["principal"]
    if "serviceName" in jaas:
        found["sasl_kerberos_service_name"] = jaas["serviceName"]
    return found


def _stores(given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if (trusted := _location(given, "truststore", prefix)) is not None:
        found["ssl_cafile"] = trusted
        if password := given.get("ssl.truststore.password"):
            found["ssl_cafile_password"] = password
    own = _location(given, "keystore", prefix)
    password = given.get("ssl.key.password")
    if own is not None:
        found |= {"ssl_certfile": own, "ssl_keyfile": own}
        # Java's stores have one password for the store and the key in it.
        password = given.get("ssl.keystore.password") or password
    if password:
        found["ssl_password"] = password
    return found


def _location(given: Mapping[str, str], store: str, prefix: str) -> str | None:
    for inline in (
        f"ssl.{store}.certificates",
        f"ssl.{store}.certificate.chain",
        "ssl.keystore.key",
    ):
        if inline.startswith(f"ssl.{store}.") and inline in given:
            raise BadSetting(
                f"{prefix}{inline}",
                f"put it into a PEM file and name that in {prefix}ssl.{store}.location",
            )
    kind = given.get(f"ssl.{store}.type", "PKCS12").strip().upper()
    if kind not in _TYPES:
        raise BadSetting(f"{prefix}ssl.{store}.type", f"{kind!r} is none of {', '.join(_TYPES)}")
    return given.get(f"ssl.{store}.location")
