"""DescribeConfigs: the effective value of each key, and where it comes from."""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.controller.config_rules import invalid_request
from ottla.broker.controller.names import check_name
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.resources import ResourceType
from ottla.broker.server.context import NodeContext
from ottla.broker.server.contract import Handler
from ottla.broker.server.handlers._config_rights import config_refusal
from ottla.broker.server.handlers._loggers import logger_levels
from ottla.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.security.rights import Operation

_UNKNOWN_TYPE = 0


def handle(context: NodeContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource once, however often it is named: all keys of a broker are 100 KB."""
    wanted = {
        (resource.resource_type, resource.resource_name): resource
        for resource in reversed(request.resources)
    }
    return DescribeConfigsResponse(
        results=[_describe(context, request, resource) for resource in reversed(wanted.values())]
    )


def _describe(
    context: NodeContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        refusal = config_refusal(
            context, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
        )
        if refusal is not None:
            raise refusal
        entries = _entries(context, resource)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
    else:
        # Kafka has no types and no documentation for loggers, and sends these fields whether asked
        # or not.
        is_logger = resource.resource_type == ResourceType.BROKER_LOGGER
        result.configs = [_entry_result(entry, request, is_logger) for entry in entries]
    return result


def _entry_result(
    entry: ConfigEntry, request: DescribeConfigsRequest, is_logger: bool
) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms
        ],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation or is_logger else None,
    )


def _entries(context: NodeContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    services = context.services
    image = services.metadata.image
    kind, name = resource.resource_type, resource.resource_name
    keys = frozenset(resource.configuration_keys or ()) or None
    if kind == ResourceType.TOPIC:
        return _topic(image, name, context, keys)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_cluster_default(services.config, keys)
        _check_id(name, services.node_id, "expected {} or empty string, but received {}")
        return describe_broker(services.config, keys)
    if kind == ResourceType.BROKER_LOGGER:
        if not name:
            raise invalid_request("Broker id must not be empty")
        _check_id(name, services.node_id, "expected {} but received {}")
        return _loggers(keys)
    if kind == ResourceType.GROUP:
        if not name:
            raise invalid_request("Group name must not be empty")
        return describe_group(image.config((kind, name)), services.config, keys)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise invalid_request("Client metrics subscription name must not be empty")
        return describe_client_metrics(image.config((kind, name)), keys)
    raise invalid_request(f"Unsupported resource type: {kind}")


def _check_id(name: str, node_id: int, expected: str) -> None:
    """Raise unless this broker is meant: a broker describes only itself."""
    try:
        number = int(name)
    except ValueError:
        raise invalid_request(f"Broker id must be an integer, but it is: {name}") from None
    if number != node_id:
        raise invalid_request(f"Unexpected broker id, {expected.format(node_id, name)}")


def _topic(
    image: MetadataImage, name: str, context: NodeContext, keys: Collection[str] | None
) -> list[ConfigEntry]:
    check_name(name)
    if name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(image.topic_config(name), context.services.config, keys)


def _loggers(keys: Collection[str] | None) -> list[ConfigEntry]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(name, level, source, False, False, (), _UNKNOWN_TYPE, "")
        for name, level in logger_levels().items()
        if not keys or name in keys
    ]


HANDLER = Handler(on_broker=handle, on_controller=handle)
