"""Settings: Kafka's names and defaults, and errors that say what to do."""

import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ottla.client.errors import BadAddress, BadSetting
from ottla.client.settings.base import settings_from, with_underscores
from ottla.client.settings.common import ClientOptions, ClientSettings
from ottla.client.settings.consumer import ConsumerOptions, ConsumerSettings
from ottla.client.settings.producer import ProducerOptions, ProducerSettings

ROOT = Path(__file__).parents[2]
KINDS = [
    (ClientOptions, ClientSettings),
    (ProducerOptions, ProducerSettings),
    (ConsumerOptions, ConsumerSettings),
]


@pytest.mark.parametrize(("options", "settings"), KINDS)
def test_options_and_settings_have_the_same_names(options: type, settings: Any) -> None:
    names = options.__annotations__.keys()
    for base in getattr(options, "__orig_bases__", ()):
        names |= getattr(base, "__annotations__", {}).keys()
    assert names == {field.name for field in fields(settings)}


def test_the_page_of_settings_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "document_client_settings.py"))
    if script["render"]() != script["PAGE"].read_text():
        pytest.fail("run: python scripts/document_client_settings.py", pytrace=False)


def test_the_defaults_of_a_producer_are_kafkas() -> None:
    settings = ProducerSettings()
    assert settings.required_acks == -1
    assert settings.is_idempotent
    assert (settings.batch_size, settings.linger_ms) == (16_384, 5)
    assert settings.buffer_memory == 33_554_432
    assert settings.delivery_timeout_ms == 120_000


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (ProducerSettings, {"linger": 5}, "did you mean linger_ms"),
        (ProducerSettings, {"linger.ms": 5}, "write linger_ms"),
        (ProducerSettings, {"acks": 2}, "acks: 2 is none of: 0, 1, -1"),
        (ProducerSettings, {"batch_size": "big"}, "batch_size: 'big' is not a number"),
        (ProducerSettings, {"linger_ms": -1}, "below the least allowed, 0"),
        (ProducerSettings, {"delivery_timeout_ms": 100}, "no request could end in time"),
        (ProducerSettings, {"enable_idempotence": True, "acks": 1}, "acks: an idempotent"),
        (
            ProducerSettings,
            {"transactional_id": "t", "max_in_flight_requests_per_connection": 6},
            "at most 5",
        ),
        (ProducerSettings, {"transactional_id": "t", "enable_idempotence": False}, "needs it"),
        (ConsumerSettings, {"auto_offset_reset": "first"}, "by_duration"),
        (ConsumerSettings, {"heartbeat_interval_ms": 45_000}, "throw this consumer out"),
        (ConsumerSettings, {"max_poll_records": 0}, "below the least allowed, 1"),
        (ConsumerSettings, {"group_protocol": "new"}, "classic, consumer"),
        (ClientSettings, {"security_protocol": "TLS"}, "SASL_SSL"),
        (ClientSettings, {"bootstrap_servers": None}, "leave it out for the default"),
        (ClientSettings, {"bootstrap_servers": 9092}, "9092 is no address; write 'localhost:9092'"),
        (ClientSettings, {"bootstrap_servers": [9092]}, "no list of str"),
        (ClientSettings, {"client_id": b"x"}, "it must be str"),
        (ClientSettings, {"request_timeout_ms": 1.5}, "not a whole number"),
        (ClientSettings, {"request_timeout_ms": True}, "not a number"),
        (ClientSettings, {"request_timeout_ms": None}, "leave it out"),
        (ConsumerSettings, {"group_id": 7}, "it must be str"),
        (ConsumerSettings, {"enable_auto_commit": "no"}, "neither True nor False"),
        (ConsumerSettings, {"auto_offset_reset": None}, "leave it out"),
        (ConsumerSettings, {"interceptors": [5]}, r"5 has no on_consume\(\) or on_commit\(\)"),
        (ProducerSettings, {"interceptors": 5}, "5 is not a list"),
        (ProducerSettings, {"partitioner": "murmur2"}, "'murmur2' has no partition"),
        (ProducerSettings, {"linger_ms": float("nan")}, "not a number to work with"),
        (
            ProducerSettings,
            {"compression_type": "zstd", "compression_level": 99},
            "above the most allowed, 22",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_the_reason(
    kind: type, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSetting, match=words):
        settings_from(kind, options)


def test_numbers_and_truths_may_be_texts_as_in_a_properties_file() -> None:
    options = {"enable.auto.commit": "false", "session.timeout.ms": "6000", "group.id": "g"}
    settings = settings_from(ConsumerSettings, with_underscores(options))
    assert settings.enable_auto_commit is False
    assert settings.session_timeout_ms == 6000
    assert settings_from(ProducerSettings, {"linger_ms": "0.5", "acks": "1"}).linger_ms == 0.5


def test_an_address_that_is_none_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(BadAddress, match="HOST:PORT"):
        settings_from(ClientSettings, {"bootstrap_servers": "localhost:port"})
    settings_from(ClientSettings, {"bootstrap_servers": "PLAINTEXT://localhost:9092"})


def test_idempotence_gives_way_where_other_settings_rule_it_out() -> None:
    assert not settings_from(ProducerSettings, {"acks": 1}).is_idempotent
    assert not settings_from(ProducerSettings, {"retries": 0}).is_idempotent


def test_kafkas_own_spelling_can_be_used() -> None:
    options = with_underscores({"bootstrap.servers": "a:1", "linger.ms": 7})
    settings = settings_from(ProducerSettings, options)
    assert (settings.bootstrap_servers, settings.linger_ms) == ("a:1", 7)
