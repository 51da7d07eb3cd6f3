"""Translates the dotted names of Java's clients into keyword options of our clients.

A file or a set of options that was written for Java's clients works here: names that have a meaning
here are translated (also `sasl.jaas.config` and PEM key stores), names that tune the JVM are
ignored, and unknown names raise, with the nearest known name. A name of another kind of client is
ignored, because one set of options often serves to read and to write. librdkafka's own names for
authentication and TLS are known, too.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from ottla.client.errors import BadSetting
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientSettings
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.settings.java_security import security_options
from ottla.client.settings.producer import ProducerSettings
from ottla.security.java_classes import (
    CLIENT_HANDLERS,
    LOGIN_HANDLERS,
    RETRIEVERS,
    VALIDATORS,
    refusal,
)

WITHOUT_EFFECT = frozenset(
    [
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "config.providers",
        "enable.metrics.push",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "security.providers",
        "send.buffer.bytes",
        "share.acknowledgement.mode",
        "socket.connection.setup.timeout.max.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ]
)
"""Names of Java's clients that do not change what is read or written here."""

JAVA_CLASSES: Mapping[str, tuple[str, ...]] = {
    "interceptor.classes": (),
    "partitioner.class": (),
    "sasl.client.callback.handler.class": CLIENT_HANDLERS,
    "sasl.login.callback.handler.class": LOGIN_HANDLERS,
    "sasl.login.class": (),
    "sasl.oauthbearer.jwt.retriever.class": RETRIEVERS,
    "sasl.oauthbearer.jwt.validator.class": VALIDATORS,
}
"""Settings that name Java classes, and those classes whose work is done here."""
COMPRESSION_LEVELS = ("gzip", "lz4", "zstd")


LIBRDKAFKA_NAMES = {
    "https.ca.location": "sasl_oauthbearer_ssl_cafile",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
}


def translate(
    given: Mapping[str, str], kind: type[ClientSettings], *, prefix: str = ""
) -> dict[str, Any]:
    """Return the checked options of `given` for a client with settings of this `kind`.

    `prefix` precedes the names where the user writes them, and so in errors."""
    known = _names(kind)
    found = security_options(given, prefix)
    found |= _compression_level(given)
    for name, value in given.items():
        plain = LIBRDKAFKA_NAMES.get(name, name.replace(".", "_"))
        if plain in known and name not in WITHOUT_EFFECT:
            found[plain] = value
        elif not _is_left_out(name, value, prefix):
            raise BadSetting(prefix + name, _unknown(name, prefix))
    chosen = {name: value for name, value in found.items() if name in known}
    _check(kind, chosen, prefix)
    return chosen


def _check(kind: type[ClientSettings], chosen: Mapping[str, Any], prefix: str) -> None:
    """Check the values, and report errors under the names that the user gave."""
    try:
        settings_from(kind, chosen)
    except BadSetting as error:
        problem = str(error).removeprefix(f"{error.name}: ")
        raise BadSetting(prefix + error.name.replace("_", "."), problem) from None


def _names(kind: type[ClientSettings]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _everywhere() -> set[str]:
    """Return the names that any of our clients has."""
    return _names(ConsumerSettings) | _names(ProducerSettings)


def _is_left_out(name: str, value: str, prefix: str) -> bool:
    if (built_in := JAVA_CLASSES.get(name)) is not None and value.strip() not in built_in:
        raise BadSetting(prefix + name, refusal(built_in))
    if name.startswith("sasl.oauthbearer.assertion."):
        raise BadSetting(prefix + name, "tokens are had by client credentials, not by assertions")
    return (
        name in WITHOUT_EFFECT
        or name in JAVA_CLASSES
        or name in LIBRDKAFKA_NAMES
        or name.replace(".", "_") in _everywhere()
        or name.startswith(
            ("ssl.truststore.", "ssl.keystore.", "ssl.key.", "sasl.jaas.", "compression.")
        )
        or name == "ssl.endpoint.identification.algorithm"
    )


def _unknown(name: str, prefix: str) -> str:
    known = {one.replace("_", ".") for one in _everywhere()} | WITHOUT_EFFECT
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {prefix}{close[0]}?" if close else ""
    return f"no Kafka client has such a setting{hint}"


def _compression_level(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the level for the codec in use: `compression.zstd.level` counts only for zstd."""
    codec = given.get("compression.type", "").strip().lower()
    level = given.get(f"compression.{codec}.level") if codec in COMPRESSION_LEVELS else None
    return {} if level is None else {"compression_level": level}
