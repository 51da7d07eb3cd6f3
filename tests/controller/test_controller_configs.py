from __future__ import annotations

import pytest
from controller_cases import CONFIG, ONE_BROKER, topic, with_topics

from ottla.broker.controller.alter_configs import (
    ConfigChange,
    KeyChange,
    Operation,
    Outcome,
    alter_configs,
)
from ottla.broker.controller.config_rules import ConfigRules
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.resources import ConfigResource, ResourceType
from ottla.protocol.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = (
    Operation.SET,
    Operation.DELETE,
    Operation.APPEND,
    Operation.SUBTRACT,
)
TOPIC: ConfigResource = (ResourceType.TOPIC, "t")
BROKER: ConfigResource = (ResourceType.BROKER, "1")
ALL_BROKERS: ConfigResource = (ResourceType.BROKER, "")
GROUP: ConfigResource = (ResourceType.GROUP, "g")
METRICS: ConfigResource = (ResourceType.CLIENT_METRICS, "m")
RULES = ConfigRules(1, CONFIG)
IMAGE = with_topics(ONE_BROKER, topic("t", retention_ms="1000", cleanup_policy="compact"))


def alter(
    image: MetadataImage,
    resource: ConfigResource,
    *keys: tuple[str, int, str | None],
    replace: bool = False,
    validate_only: bool = False,
) -> tuple[MetadataImage, Outcome]:
    change = ConfigChange(resource, [KeyChange(*key) for key in keys], replace)
    decision = alter_configs(image, [change], RULES, validate_only=validate_only)
    after = image.apply(decision.records, image.offset + len(decision.records), 1)
    return after, decision.response[0]


def refusal(resource: ConfigResource, *keys: tuple[str, int, str | None]) -> ErrorCode | None:
    after, outcome = alter(IMAGE, resource, *keys)
    assert after.configs == IMAGE.configs or outcome is None
    return outcome.code if outcome else None


def test_keys_are_set_and_deleted_one_by_one():
    after, outcome = alter(
        IMAGE, TOPIC, ("retention.ms", DELETE, None), ("segment.bytes", SET, "2000000")
    )
    assert outcome is None
    assert after.topic_config("t") == {"cleanup.policy": "compact", "segment.bytes": "2000000"}


def test_lists_grow_and_shrink_by_item():
    after, _ = alter(IMAGE, TOPIC, ("cleanup.policy", APPEND, "delete,compact"))
    assert after.topic_config("t")["cleanup.policy"] == "compact,delete"
    after, _ = alter(after, TOPIC, ("cleanup.policy", SUBTRACT, "compact"))
    assert after.topic_config("t")["cleanup.policy"] == "delete"


def test_appending_to_an_unset_list_starts_from_its_default():
    image = with_topics(IMAGE, topic("u"))
    after, outcome = alter(image, (ResourceType.TOPIC, "u"), ("cleanup.policy", APPEND, "compact"))
    assert outcome is None
    assert after.topic_config("u")["cleanup.policy"] == "delete,compact"


def test_the_old_way_replaces_everything():
    after, outcome = alter(IMAGE, TOPIC, ("segment.bytes", SET, "2000000"), replace=True)
    assert outcome is None
    assert after.topic_config("t") == {"segment.bytes": "2000000"}


def test_the_old_way_with_nothing_clears_everything():
    after, _ = alter(IMAGE, TOPIC, replace=True)
    assert TOPIC not in after.configs


def test_validate_only_judges_and_changes_nothing():
    after, outcome = alter(IMAGE, TOPIC, ("retention.ms", SET, "7"), validate_only=True)
    assert outcome is None
    assert after.configs == IMAGE.configs
    _, outcome = alter(IMAGE, TOPIC, ("retention.ms", SET, "x"), validate_only=True)
    assert outcome is not None


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("nonsense", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "5"), ("segment.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_bad_changes_of_a_topic_change_nothing_of_it(
    keys: list[tuple[str, int, str | None]], code: ErrorCode
):
    assert refusal(TOPIC, *keys) is code


@pytest.mark.parametrize(
    ("resource", "key", "value", "code"),
    [
        (
            (ResourceType.TOPIC, "missing"),
            "retention.ms",
            "1",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        ((ResourceType.TOPIC, "no/good"), "retention.ms", "1", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((ResourceType.TOPIC, ""), "retention.ms", "1", ErrorCode.INVALID_REQUEST),
        ((ResourceType.BROKER, "2"), "log.retention.ms", "1", ErrorCode.BROKER_ID_NOT_REGISTERED),
        ((ResourceType.BROKER, "x"), "log.retention.ms", "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "log.dirs", "/elsewhere", ErrorCode.INVALID_REQUEST),
        (BROKER, "log.retention.ms", "x", ErrorCode.INVALID_REQUEST),
        (ALL_BROKERS, "ssl.keystore.location", "/k", ErrorCode.INVALID_REQUEST),
        ((ResourceType.GROUP, ""), "consumer.session.timeout.ms", "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "nonsense", "1", ErrorCode.INVALID_CONFIG),
        (GROUP, "consumer.session.timeout.ms", "x", ErrorCode.INVALID_CONFIG),
        ((ResourceType.CLIENT_METRICS, ""), "metrics", "*", ErrorCode.INVALID_REQUEST),
        (METRICS, "interval.ms", "99", ErrorCode.INVALID_REQUEST),
        (METRICS, "nonsense", "1", ErrorCode.INVALID_REQUEST),
        ((3, "x"), "a", "b", ErrorCode.INVALID_REQUEST),
        ((ResourceType.BROKER_LOGGER, "1"), "ottla", "INFO", ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_changes_are_refused(resource: ConfigResource, key: str, value: str, code: ErrorCode):
    assert refusal(resource, (key, SET, value)) is code


@pytest.mark.parametrize(
    ("resource", "key", "value"),
    [
        (BROKER, "log.retention.ms", "60000"),
        (ALL_BROKERS, "message.max.bytes", "2000000"),
        (GROUP, "consumer.session.timeout.ms", "50000"),
        (METRICS, "interval.ms", "1000"),
        (METRICS, "match", "client_id=app.*"),
    ],
)
def test_every_kind_of_resource_keeps_its_settings(resource: ConfigResource, key: str, value: str):
    after, outcome = alter(IMAGE, resource, (key, SET, value))
    assert outcome is None
    assert after.config(resource) == {key: value}


def test_a_resource_that_appears_twice_fails_and_others_do_not():
    changes = [
        ConfigChange(TOPIC, [KeyChange("retention.ms", SET, "5")]),
        ConfigChange(GROUP, [KeyChange("consumer.session.timeout.ms", SET, "50000")]),
        ConfigChange(TOPIC, [KeyChange("retention.ms", SET, "6")]),
    ]
    decision = alter_configs(IMAGE, changes, RULES, validate_only=False)
    assert [o.code if o else None for o in decision.response] == [
        ErrorCode.INVALID_REQUEST,
        None,
        ErrorCode.INVALID_REQUEST,
    ]
    assert len(decision.records) == 1


def test_an_unchanged_value_costs_no_record_except_for_brokers():
    change = ConfigChange(TOPIC, [KeyChange("retention.ms", SET, "1000")])
    assert alter_configs(IMAGE, [change], RULES, validate_only=False).records == []
    image, _ = alter(IMAGE, BROKER, ("log.retention.ms", SET, "60000"))
    again = ConfigChange(BROKER, [KeyChange("log.retention.ms", SET, "60000")])
    assert len(alter_configs(image, [again], RULES, validate_only=False).records) == 1
