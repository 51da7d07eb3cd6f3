"""Settings: Kafka's names and defaults, and errors that say what to do."""

import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ottla.client.errors import BadSetting
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
    ],
)
def test_a_wrong_setting_is_refused_with_the_reason(
    kind: type, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSetting, match=words):
        settings_from(kind, options)


def test_idempotence_gives_way_where_other_settings_rule_it_out() -> None:
    assert not settings_from(ProducerSettings, {"acks": 1}).is_idempotent
    assert not settings_from(ProducerSettings, {"retries": 0}).is_idempotent


def test_kafkas_own_spelling_can_be_used() -> None:
    options = with_underscores({"bootstrap.servers": "a:1", "linger.ms": 7})
    settings = settings_from(ProducerSettings, options)
    assert (settings.bootstrap_servers, settings.linger_ms) == ("a:1", 7)
