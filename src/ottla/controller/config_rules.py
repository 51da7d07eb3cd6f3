"""What may be configured on which kind of resource."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import BROKER_KEYS, client_metrics, group, topic
from ottla.config.dynamic import validate_dynamic
from ottla.config.errors import ConfigError
from ottla.config.keys import ConfigKey
from ottla.config.topic import validate_topic_overrides
from ottla.config.values import ConfigType, IllTyped
from ottla.controller.names import check_name
from ottla.metadata.image import MetadataImage
from ottla.metadata.resources import ConfigResource, ResourceType
from ottla.protocol.errors import ErrorCode, KafkaError

CLIENT_INTERVAL_MS = range(100, 3_600_001)
CLIENT_MATCH_PARAMETERS = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class ConfigRules(NamedTuple):
    """Who judges: the node that holds the image, with its own settings."""

    node_id: int
    config: BrokerConfig

    def check_resource(self, resource: ConfigResource) -> None:
        """Refuse a name under which nothing can be configured."""
        kind, name = resource
        if kind == ResourceType.TOPIC:
            if not name:
                raise invalid_request("Default topic resources are not allowed.")
            check_name(name)
        elif kind == ResourceType.BROKER:
            if name:
                check_is_node(name, self.node_id)
        elif kind == ResourceType.GROUP:
            if not name:
                raise invalid_request("Default group resources are not allowed.")
        elif kind == ResourceType.CLIENT_METRICS:
            if not name:
                raise invalid_request("Subscription name can't be empty")
        else:
            raise invalid_request(f"Unknown resource type {kind}")

    def check_configs(
        self, resource: ConfigResource, configs: Mapping[str, str], image: MetadataImage
    ) -> None:
        """Refuse what the resource may not have as its whole configuration."""
        kind, name = resource
        if kind == ResourceType.TOPIC:
            _as(ErrorCode.INVALID_CONFIG, lambda: validate_topic_overrides(configs, self.config))
            if name not in image.topics:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                )
        elif kind == ResourceType.BROKER:
            # Kafka answers INVALID_REQUEST here, and clients have come to expect it.
            per_broker = bool(name)
            _as(
                ErrorCode.INVALID_REQUEST,
                lambda: validate_dynamic(configs, self.config, per_broker=per_broker),
            )
        elif kind == ResourceType.GROUP:
            for key, value in configs.items():
                _check_value(group.KEYS, key, value, "group", ErrorCode.INVALID_CONFIG)
        else:
            _check_client_metrics(configs)


def key_table(kind: int) -> Mapping[str, ConfigKey]:
    """The keys that a kind of resource knows."""
    tables: dict[int, Mapping[str, ConfigKey]] = {
        ResourceType.TOPIC: topic.KEYS,
        ResourceType.BROKER: BROKER_KEYS,
        ResourceType.GROUP: group.KEYS,
        ResourceType.CLIENT_METRICS: client_metrics.KEYS,
    }
    return tables[kind]


def is_list(kind: int, key: str) -> bool:
    known = key_table(kind).get(key)
    return known is not None and known.type is ConfigType.LIST


def check_is_node(name: str, node_id: int) -> None:
    """A broker configures only itself: it alone can tell whether a value works."""
    try:
        broker_id = int(name)
    except ValueError:
        raise invalid_request(f"Node id must be an integer, but it is: {name}") from None
    if broker_id != node_id:
        raise invalid_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _as(code: ErrorCode, check: object) -> None:
    try:
        check()  # type: ignore[operator]
    except ConfigError as error:
        raise KafkaError(code, str(error)) from error


def _check_value(
    keys: Mapping[str, ConfigKey], key: str, value: str, what: str, code: ErrorCode
) -> object:
    known = keys.get(key)
    if known is None:
        raise KafkaError(code, f"Unknown {what} configuration: {key}")
    try:
        return known.parse(value)
    except IllTyped as error:
        raise KafkaError(code, f"Invalid value {value} for configuration {key}: {error}") from error


def _check_client_metrics(configs: Mapping[str, str]) -> None:
    for key, value in configs.items():
        code = ErrorCode.INVALID_REQUEST
        parsed = _check_value(client_metrics.KEYS, key, value, "client metrics", code)
        if key == "interval.ms" and parsed not in CLIENT_INTERVAL_MS:
            raise invalid_request(
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 "
                "(1 hour)"
            )
        if key == "match":
            for pattern in value.split(",") if value else ():
                _check_match(pattern)


def _check_match(pattern: str) -> None:
    parameter, _, expression = pattern.partition("=")
    legal = parameter.strip() in CLIENT_MATCH_PARAMETERS and expression and "=" not in expression
    try:
        re.compile(expression.strip())
    except re.error:
        legal = False
    if not legal:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
