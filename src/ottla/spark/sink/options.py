"""The options of the sink: those of Spark's Kafka sink, and more for exactly once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, get_args

from ottla.client.errors import BadSetting
from ottla.client.settings.base import settings_from
from ottla.client.settings.producer import ProducerOptions, ProducerSettings
from ottla.spark.client_options import PREFIX, SECURITY, admin_options, producer_options
from ottla.spark.sink.decisions import LostPolicy

Guarantee = Literal["exactly-once", "at-least-once"]

DECISIONS_TOPIC: Final = "__ottla_sink_decisions"
NAMES: Final = (
    "topic",
    "deliveryGuarantee",
    "decisionsTopic",
    "lostTransactions",
    "txnAppId",
    "txnVersion",
)
TRANSACTION_TIMEOUT: Final = "kafka.transaction.timeout.ms"
NOT_TO_BE_SET: Final = {
    "kafka.transactional.id": "the sink names its transactions itself",
    "kafka.key.serializer": "keys are bytes or text already",
    "kafka.value.serializer": "values are bytes or text already",
    "kafka.enable.idempotence": "records would come twice; leave it out",
}
NEARLY: Final = 0.8

COLUMNAR: Final[ProducerOptions] = {"batch_size": 256 << 10, "linger_ms": 20}
"""Rows come by the ten thousand: there is no need to wait, and large batches cost less."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    given: Mapping[str, str] = field(repr=False)
    """As given, with names in lower case: clients are made from these."""
    topic: str | None
    guarantee: Guarantee
    decisions_topic: str
    lost: LostPolicy
    app: str | None
    version: int
    """0 without an `app`."""

    @classmethod
    def read(cls, options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        given = {name.lower(): value for name, value in options.items()}
        _check_names(given)
        app, version = _write_version(given)
        if streaming and app is not None:
            raise BadSetting("txnAppId", "is for batch writes; a query has an id of its own")
        guarantee = cast("Guarantee", _choice(given, "deliveryGuarantee", get_args(Guarantee)))
        if app is not None and guarantee != "exactly-once":
            raise BadSetting("txnAppId", f"means exactly once, and deliveryGuarantee {guarantee}")
        found = cls(
            given,
            given.get("topic") or None,
            guarantee,
            given.get("decisionstopic") or DECISIONS_TOPIC,
            cast("LostPolicy", _choice(given, "lostTransactions", get_args(LostPolicy))),
            app,
            version,
        )
        _check_producer(given, guarantee)
        return found

    @property
    def is_exactly_once(self) -> bool:
        return self.guarantee == "exactly-once"

    @property
    def cluster_options(self) -> dict[str, Any]:
        return cast("dict[str, Any]", admin_options(self.given))

    @property
    def producer_options(self) -> ProducerOptions:
        return {**COLUMNAR, **producer_options(self.given)}

    @property
    def timeout_is_given(self) -> bool:
        return TRANSACTION_TIMEOUT in self.given


def _check_names(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in NAMES}
    for name, value in given.items():
        if name in NOT_TO_BE_SET and not (name.endswith("idempotence") and value == "true"):
            raise BadSetting(name, f"cannot be set: {NOT_TO_BE_SET[name]}")
        if name.startswith(SECURITY):
            raise BadSetting(name, f"is no option of the sink; did you mean {PREFIX}{name}?")
        close = difflib.get_close_matches(name, known, n=1, cutoff=NEARLY)
        if name not in known and close:
            raise BadSetting(name, f"is no option of the sink; did you mean {known[close[0]]}?")


def _check_producer(given: Mapping[str, str], guarantee: Guarantee) -> None:
    """Check the producer's options while the query is planned."""
    options = producer_options(given)
    if guarantee == "exactly-once":
        transactional: ProducerOptions = {**options, "transactional_id": "sink"}
        try:
            settings_from(ProducerSettings, transactional)
        except BadSetting as error:
            name = PREFIX + error.name.replace("_", ".")
            needed = str(error).partition(" needs ")[2]
            raise BadSetting(
                name,
                f"is {given[name]}, and exactly once needs {needed}: leave it out, or set "
                "deliveryGuarantee to at-least-once",
            ) from None
    elif settings_from(ProducerSettings, options).required_acks == 0:
        raise BadSetting(
            f"{PREFIX}acks", "is 0: nobody would know of rows that are lost; use all, or 1"
        )


def _write_version(given: Mapping[str, str]) -> tuple[str | None, int]:
    app, version = given.get("txnappid"), given.get("txnversion")
    if app is None and version is None:
        return None, 0
    if version is None:
        raise BadSetting(
            "txnVersion",
            f"is missing: txnAppId is {app!r}, and each of its writes has a version, such as the "
            "number of the batch in foreachBatch",
        )
    if not app:
        raise BadSetting(
            "txnAppId",
            f"is missing: txnVersion is {version}, and it must say of which application; choose "
            "a name that no other write has",
        )
    try:
        number = int(version)
    except ValueError:
        number = -1
    if number < 0:
        raise BadSetting("txnVersion", f"{version!r} is not a whole number from 0 on")
    topic = given.get("topic")
    # Two writes of one version to two topics are separate writes.
    return (f"{app}@{topic}" if topic else app), number


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = given.get(name.lower(), choices[0])
    if value not in choices:
        raise BadSetting(name, f"{value!r} is none of: {', '.join(choices)}")
    return value
