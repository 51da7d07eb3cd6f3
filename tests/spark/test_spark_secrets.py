"""References to secrets in options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.client.errors import BadSetting
from ottla.pipelines.context import Context
from ottla.pipelines.declared.read import read_declaration
from ottla.pipelines.folders import Spec
from ottla.spark.client_options import admin_options
from ottla.spark.secrets import SECRET_BYTES_MAX, resolved
from ottla.spark.sink.options import SinkOptions
from ottla.spark.source.options import stream_options
from ottla.streams import App

BASE = {"kafka.bootstrap.servers": "localhost:9092"}
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_a_value_without_reference_stays_as_it_is() -> None:
    given = {"client.id": "$a ${b} ${other:c}", "sasl.password": "plain"}
    assert resolved(given) == given


def test_secrets_come_from_the_environment_and_from_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTTLA_TEST_PASSWORD", "pass word")
    (tmp_path / "whole").write_text("first\n")
    (tmp_path / "keys.properties").write_text("user=alice\npassword=sec\\u0072et\n")
    for value, expected in (
        ("${env:OTTLA_TEST_PASSWORD}", "pass word"),
        ("<${env:OTTLA_TEST_PASSWORD}>", "<pass word>"),
        (f"${{file:{tmp_path}/whole}}", "first"),
        (f"${{file:{tmp_path}/keys.properties:password}}", "secret"),
        (
            f"${{file:{tmp_path}/keys.properties:user}}/${{env:OTTLA_TEST_PASSWORD}}",
            "alice/pass word",
        ),
    ):
        assert resolved({"sasl.password": value}) == {"sasl.password": expected}


def test_a_secret_may_have_any_character_in_a_jaas_line(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a\"b\\c;d'e ${env:X}"
    monkeypatch.setenv("OTTLA_TEST_PASSWORD", secret)
    line = JAAS + ' username="a" password="${env:OTTLA_TEST_PASSWORD}";'
    found = admin_options({**BASE, "kafka.sasl.jaas.config": line})
    assert found["sasl_password"] == secret


def test_what_is_missing_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a=1\n")
    (tmp_path / "large").write_bytes(bytes(SECRET_BYTES_MAX + 1))
    for value, part in (
        ("${env:OTTLA_TEST_NOWHERE}", "the environment has no OTTLA_TEST_NOWHERE"),
        ("${file:/nowhere}", "cannot read /nowhere: No such file"),
        ("${file:/nowhere:key}", "cannot read /nowhere: No such file"),
        (f"${{file:{tmp_path}/keys:b}}", f"{tmp_path}/keys has no line b=..."),
        (f"${{file:{tmp_path}/large}}", "has more than"),
    ):
        with pytest.raises(BadSetting, match=re.escape(part)) as caught:
            admin_options({**BASE, "kafka.sasl.password": value})
        assert str(caught.value).startswith("kafka.sasl.password: ${")


def test_no_repr_of_what_holds_settings_shows_a_secret(tmp_path: Path) -> None:
    secret = "not-for-logs"
    given = {**BASE, "kafka.sasl.password": secret, "kafka.ssl.key.password": secret}
    lines = "".join(f"  {name}: {value}\n" for name, value in given.items())
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"source: a\nsink: {{topic: b}}\nconnection:\n{lines}")
    for holder in (
        App("app", options=given).settings,
        Context("pipeline", connection=given),
        SinkOptions.read({**given, "topic": "t"}, streaming=True),
        Spec("pipeline", 1, "f", "f", options=given, defaults=given),
        read_declaration(file),
        stream_options({**given, "subscribe": "t"}),
    ):
        assert secret not in repr(holder)
