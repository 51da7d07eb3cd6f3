"""Spark's options `kafka.*`, with Kafka's dotted names, as keyword options of our clients.

So that a program written for Spark's own Kafka connector keeps its options: those of Java's clients
that have a meaning here are translated (also `sasl.jaas.config` and PEM stores of keys), those that
tune the JVM are left out, and those that nobody knows are errors, with the nearest name that is
known. An option that another kind of client has is left out, as one set of options is often used to
read and to write.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from ottla.client.errors import BadSetting
from ottla.client.settings.base import settings_from
from ottla.client.settings.common import ClientOptions, ClientSettings
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.spark.kafka_security import security_options

S = TypeVar("S", bound=ClientSettings)

PREFIX = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"

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
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
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
"""Names of Java's clients that change nothing about what is read or written here."""

JAVA_CLASSES = frozenset(
    [
        "interceptor.classes",
        "partitioner.class",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
    ]
)
COMPRESSION_LEVELS = ("gzip", "lz4", "zstd")


def consumer_options(options: Mapping[str, str]) -> ConsumerOptions:
    return cast("ConsumerOptions", client_options(options, ConsumerSettings))


def producer_options(options: Mapping[str, str]) -> ProducerOptions:
    return cast("ProducerOptions", client_options(options, ProducerSettings))


def admin_options(options: Mapping[str, str]) -> ClientOptions:
    return cast("ClientOptions", client_options(options, ClientSettings))


def client_options(options: Mapping[str, str], kind: type[ClientSettings]) -> dict[str, Any]:
    """What `options` say to a client with settings of this `kind`; each value has been checked."""
    given = {
        name.lower().removeprefix(PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    if not given.get("bootstrap.servers", "").strip():
        raise BadSetting(BOOTSTRAP, "it must say where the cluster is, such as localhost:9092")
    known = _names(kind)
    found = security_options(given)
    found |= _compression_level(given)
    for name, value in given.items():
        plain = name.replace(".", "_")
        if plain in known and name not in WITHOUT_EFFECT:
            found[plain] = value
        elif not _is_left_out(name):
            raise BadSetting(PREFIX + name, _unknown(name))
    chosen = {name: value for name, value in found.items() if name in known}
    _check(kind, chosen)
    return chosen


def _check(kind: type[ClientSettings], chosen: Mapping[str, Any]) -> None:
    """Wrong values are told under the names they were given by."""
    try:
        settings_from(kind, chosen)
    except BadSetting as error:
        problem = str(error).removeprefix(f"{error.name}: ")
        raise BadSetting(PREFIX + error.name.replace("_", "."), problem) from None


def _names(kind: type[ClientSettings]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _everywhere() -> set[str]:
    """The names that some client of ours has."""
    return _names(ConsumerSettings) | _names(ProducerSettings)


def _is_left_out(name: str) -> bool:
    if name in JAVA_CLASSES:
        raise BadSetting(PREFIX + name, "names a Java class, which cannot run here; leave it out")
    return (
        name in WITHOUT_EFFECT
        or name.replace(".", "_") in _everywhere()
        or name.startswith(
            ("ssl.truststore.", "ssl.keystore.", "ssl.key.", "sasl.jaas.", "compression.")
        )
        or name == "ssl.endpoint.identification.algorithm"
    )


def _unknown(name: str) -> str:
    known = {one.replace("_", ".") for one in _everywhere()} | WITHOUT_EFFECT
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
    return f"no Kafka client has such a setting{hint}"


def _compression_level(given: Mapping[str, str]) -> dict[str, Any]:
    """`compression.zstd.level` and its like count for their codec alone."""
    codec = given.get("compression.type", "").strip().lower()
    level = given.get(f"compression.{codec}.level") if codec in COMPRESSION_LEVELS else None
    return {} if level is None else {"compression_level": level}
