"""DescribeConfigs: which value is in force for each key, and where it comes from."""

from __future__ import annotations

from collections.abc import Collection

from ottla.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from ottla.controller.config_rules import check_is_node, invalid_request
from ottla.controller.names import check_name
from ottla.metadata.image import MetadataImage
from ottla.metadata.resources import ResourceType
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.server.context import RequestContext
from ottla.server.handlers._loggers import logger_levels

_STRING = 2


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(context, request, resource) for resource in request.resources]
    )


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        entries = _entries(context, resource)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
    else:
        result.configs = [_told(entry, request) for entry in entries]
    return result


def _told(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
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
        documentation=entry.doc if request.include_documentation else None,
    )


def _entries(context: RequestContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    node = context.node
    image = node.metadata.image
    kind, name = resource.resource_type, resource.resource_name
    keys = frozenset(resource.configuration_keys or ()) or None
    if kind == ResourceType.TOPIC:
        return _topic(image, name, context, keys)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_cluster_default(node.config, keys)
        check_is_node(name, node.node_id)
        return describe_broker(node.config, keys)
    if kind == ResourceType.BROKER_LOGGER:
        if not name:
            raise invalid_request("Broker id must not be empty")
        check_is_node(name, node.node_id)
        return _loggers(keys)
    if not name and kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        raise invalid_request("The name of a group or client metrics resource must not be empty")
    if kind == ResourceType.GROUP:
        return describe_group(image.config((kind, name)), node.config, keys)
    if kind == ResourceType.CLIENT_METRICS:
        return describe_client_metrics(image.config((kind, name)), keys)
    raise invalid_request(f"Unsupported resource type: {kind}")


def _topic(
    image: MetadataImage, name: str, context: RequestContext, keys: Collection[str] | None
) -> list[ConfigEntry]:
    check_name(name)
    if name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic(image.topic_config(name), context.node.config, keys)


def _loggers(keys: Collection[str] | None) -> list[ConfigEntry]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(name, level, source, False, False, (), _STRING, "")
        for name, level in logger_levels().items()
        if not keys or name in keys
    ]
