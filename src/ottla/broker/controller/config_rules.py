"""Checks of configs for each kind of resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.broker.controller.names import check_name
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.resources import ConfigResource, ResourceType
from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import validate_client_metrics
from ottla.config.definitions import BROKER_KEYS, client_metrics, group, topic
from ottla.config.dynamic import validate_broker_overrides
from ottla.config.errors import ConfigError
from ottla.config.group import validate_group_overrides
from ottla.config.keys import ConfigKey
from ottla.config.topic import validate_topic_overrides
from ottla.config.values import ConfigType
from ottla.protocol.errors import ErrorCode, KafkaError


class ConfigRules(NamedTuple):
    """The node that holds the image, and its settings."""

    node_id: int
    config: BrokerConfig

    def check_resource(self, resource: ConfigResource) -> None:
        """Refuse a resource that cannot have configs."""
        kind, name = resource
        if kind == ResourceType.TOPIC:
            if not name:
                raise invalid_request("Default topic resources are not allowed.")
            check_name(name)
        elif kind == ResourceType.BROKER:
            if name:
                node_number(name)
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
        """Refuse configs that the resource may not have."""
        kind, name = resource
        if kind == ResourceType.TOPIC:
            refuse_config(ErrorCode.INVALID_CONFIG, validate_topic_overrides, configs, self.config)
            if name not in image.topics:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                )
        elif kind == ResourceType.BROKER:
            self._check_node_exists(name, image)
            # Kafka answers INVALID_REQUEST here, and clients expect it.
            refuse_config(
                ErrorCode.INVALID_REQUEST,
                validate_broker_overrides,
                configs,
                cluster_default=not name,
            )
        elif kind == ResourceType.GROUP:
            refuse_config(ErrorCode.INVALID_CONFIG, validate_group_overrides, configs, self.config)
        else:
            _check_client_metrics(configs)

    def _check_node_exists(self, name: str, image: MetadataImage) -> None:
        nodes = {self.node_id, *image.brokers, *image.controllers}
        if name and node_number(name) not in nodes:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")


def key_table(kind: int) -> Mapping[str, ConfigKey]:
    """Return the config keys of a kind of resource."""
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
    """Raise unless this node is meant: only a broker itself can tell whether a value works for
    it."""
    if node_number(name) != node_id:
        raise invalid_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def node_number(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise invalid_request(f"Node id must be an integer, but it is: {name}") from None


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_client_metrics(configs: Mapping[str, str]) -> None:
    """Check client metrics. Only an invalid pattern is an invalid config, everything else an
    invalid request."""
    try:
        validate_client_metrics(configs)
    except ConfigError as error:
        patterns = all(problem.key == "match" for problem in error.problems)
        code = ErrorCode.INVALID_CONFIG if patterns else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, str(error)) from error


def refuse_config(
    code: ErrorCode, validate: Callable[..., None], *arguments: object, **options: object
) -> None:
    """Run a check of `config/`, and give its findings an error code."""
    try:
        validate(*arguments, **options)
    except ConfigError as error:
        raise KafkaError(code, str(error)) from error
