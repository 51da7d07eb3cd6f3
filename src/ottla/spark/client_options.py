"""Translates Spark's options `kafka.*` into keyword options of Ottla's clients.

Programs written for Spark's own Kafka connector can keep their options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ottla.client.errors import BadSetting
from ottla.client.settings.common import ClientOptions, ClientSettings
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.settings.java_names import translate
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.spark.secrets import resolved

PREFIX = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"
SECURITY = ("security.", "sasl.", "ssl.")
"""How settings begin that no option may lack its prefix of: it would be ignored, and the connection
would not be secured."""


def consumer_options(options: Mapping[str, str]) -> ConsumerOptions:
    return cast("ConsumerOptions", _client_options(options, ConsumerSettings))


def producer_options(options: Mapping[str, str]) -> ProducerOptions:
    return cast("ProducerOptions", _client_options(options, ProducerSettings))


def admin_options(options: Mapping[str, str]) -> ClientOptions:
    return cast("ClientOptions", _client_options(options, ClientSettings))


def _client_options(options: Mapping[str, str], kind: type[ClientSettings]) -> dict[str, Any]:
    given = {
        name.lower().removeprefix(PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    if not given.get("bootstrap.servers", "").strip():
        raise BadSetting(BOOTSTRAP, "it must say where the cluster is, such as localhost:9092")
    return translate(resolved(given, prefix=PREFIX), kind, prefix=PREFIX)
