"""Translates the security settings of Java's clients into those of ours.

Java keeps names and passwords in `sasl.jaas.config`, and keys in stores. Stores of type PEM are
plain files that Python reads too; those of Java's own types must be converted once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ottla.client.errors import BadSetting

_PAIR = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;]+))')
_MODULES = ("PlainLoginModule", "ScramLoginModule")
_PEM_ENDINGS = (".pem", ".crt", ".cert", ".cer", ".key")


def security_options(given: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """Return the options that `given` sets. `prefix` precedes names in errors."""
    found: dict[str, Any] = {}
    if jaas := given.get("sasl.jaas.config", "").strip():
        found |= _from_jaas(jaas, prefix)
    if (store := _pem_store(given, "truststore", prefix)) is not None:
        found["ssl_cafile"] = store
    if (store := _pem_store(given, "keystore", prefix)) is not None:
        found |= {"ssl_certfile": store, "ssl_keyfile": store}
    if password := given.get("ssl.key.password"):
        found["ssl_password"] = password
    if (algorithm := given.get("ssl.endpoint.identification.algorithm")) is not None:
        # Java turns the check off with an empty string, librdkafka with "none".
        found["ssl_check_hostname"] = algorithm.strip().lower() not in ("", "none")
    return found


def _from_jaas(text: str, prefix: str) -> dict[str, str]:
    module = text.split()[0].rpartition(".")[2]
    if module not in _MODULES:
        raise BadSetting(
            f"{prefix}sasl.jaas.config",
            f"{module} is none of: {', '.join(_MODULES)}; "
            "others sign in by code that runs in Java alone",
        )
    pairs = {
        name: re.sub(r"\\(.)", r"\1", quoted) or single or bare
        for name, quoted, single, bare in _PAIR.findall(text)
    }
    missing = {"username", "password"} - pairs.keys()
    if missing:
        raise BadSetting(
            f"{prefix}sasl.jaas.config", f"it has no {' and no '.join(sorted(missing))}"
        )
    return {"sasl_username": pairs["username"], "sasl_password": pairs["password"]}


def _pem_store(given: Mapping[str, str], store: str, prefix: str) -> str | None:
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
    location = given.get(f"ssl.{store}.location")
    if location is None:
        return None
    kind = given.get(f"ssl.{store}.type", "").strip().upper()
    if kind != "PEM" and not (not kind and location.lower().endswith(_PEM_ENDINGS)):
        raise BadSetting(
            f"{prefix}ssl.{store}.location",
            f"{location!r} is a {kind or 'JKS'} store, which only Java reads; convert it to PEM "
            "(keytool -exportcert -rfc, or openssl pkcs12 -nodes) and set "
            f"{prefix}ssl.{store}.type to PEM",
        )
    return location
