"""Error codes, ids and the table of APIs."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from ottla.protocol.apis import APIS, ApiKey, api
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, from_text, random_uuid, to_text


def test_error_codes_have_kafkas_numbers_and_retriability() -> None:
    theirs = {code.value: code.retriable for code in KioErrorCode}
    assert {int(code): code.retriable for code in ErrorCode} == theirs
    assert {code.name.lower() for code in ErrorCode} == {code.name for code in KioErrorCode}


def test_every_error_code_has_a_message() -> None:
    assert all(code.message.endswith(".") for code in ErrorCode)
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)


def test_a_code_from_a_newer_peer_becomes_the_catch_all() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_kafka_error_says_its_code_and_what_happened() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is 'soon'")
    assert str(error) == "INVALID_CONFIG: retention.ms is 'soon'"
    assert KafkaError(ErrorCode.NOT_CONTROLLER).message == ErrorCode.NOT_CONTROLLER.message
    assert KafkaError(ErrorCode.NOT_CONTROLLER).retriable
    assert not error.retriable


def test_there_are_89_apis_and_each_has_its_classes() -> None:
    assert len(APIS) == len(ApiKey) == 89
    for entry in APIS.values():
        assert entry.request_class().API_KEY == entry.response_class().API_KEY == entry.key
        assert entry.request_class().__name__ == f"{entry.name}Request"


def test_an_unstable_version_is_marked() -> None:
    unstable = [entry.key for entry in APIS.values() if entry.latest_unstable]
    assert unstable == [ApiKey.INIT_PRODUCER_ID]
    assert api(ApiKey.INIT_PRODUCER_ID).latest_stable == 5
    assert api(ApiKey.PRODUCE).latest_stable == 13


def test_flexible_versions_are_told_apart() -> None:
    assert not api(0).is_flexible(8)
    assert api(0).is_flexible(9)
    assert not api(ApiKey.SASL_HANDSHAKE).is_flexible(1)


def test_uuids_have_kafkas_text() -> None:
    # Written by Kafka's own Uuid.toString
    assert to_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert to_text(bytes(range(1, 17))) == "AQIDBAUGBwgJCgsMDQ4PEA"
    assert to_text(b"\xfb\xff" * 8) == "-__7__v_-__7__v_-__7_w"


def test_uuid_text_reads_back(random: Random) -> None:
    for _ in range(200):
        uuid = random.randbytes(16)
        assert from_text(to_text(uuid)) == uuid
        assert from_text(to_text(uuid) + "==") == uuid


@pytest.mark.parametrize(
    "text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAA!", "ä" * 22, "A" * 23, "A" * 24]
)
def test_text_that_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        from_text(text)


def test_a_uuid_of_the_wrong_size_has_no_text() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        to_text(b"short")


def test_random_uuids_are_version_4_and_no_command_line_options(random: Random) -> None:
    for _ in range(500):
        uuid = random_uuid(random)
        assert uuid[6] >> 4 == 4
        assert uuid[8] >> 6 == 2
        assert not to_text(uuid).startswith("-")
