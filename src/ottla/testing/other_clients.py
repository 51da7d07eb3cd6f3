"""The settings of a test's cluster in the names that other libraries have for them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from ottla.config.security.private_cluster import client_line

Library = Literal["librdkafka", "java", "kafka-python", "aiokafka"]
Options = Mapping[str, Any]


def settings_of(library: Library, options: Options) -> dict[str, Any]:
    """Return options of Ottla's clients as settings of `library`."""
    if library not in _TRANSLATIONS:
        raise ValueError(f"library: {library!r} is none of {', '.join(_TRANSLATIONS)}")
    return _TRANSLATIONS[library](options)


def _librdkafka(options: Options) -> dict[str, Any]:
    renamed = {"ssl_cafile": "ssl.ca.location"}
    return {renamed.get(name, name.replace("_", ".")): each for name, each in options.items()}


def _java(options: Options) -> dict[str, Any]:
    settings = {
        name.replace("_", "."): each
        for name, each in options.items()
        if name in ("bootstrap_servers", "security_protocol", "sasl_mechanism")
    }
    if "sasl_username" in options:
        line = client_line(options["sasl_username"], options["sasl_password"])
        settings["sasl.jaas.config"] = line
    if "ssl_cafile" in options:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.location"] = options["ssl_cafile"]
    return settings


def _kafka_python(options: Options) -> dict[str, Any]:
    renamed = {"sasl_username": "sasl_plain_username", "sasl_password": "sasl_plain_password"}
    return {renamed.get(name, name): each for name, each in options.items()}


def _aiokafka(options: Options) -> dict[str, Any]:
    settings = _kafka_python(options)
    if (authority := settings.pop("ssl_cafile", None)) is not None:
        settings["ssl_context"] = ssl.create_default_context(cafile=authority)
    return settings


_TRANSLATIONS: Final[Mapping[str, Callable[[Options], dict[str, Any]]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}
