"""The handlers of configs on a real metadata log, their answers encoded in every version."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from handler_stage import Admin, create, versions, with_admin

from ottla.broker.metadata.resources import ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs import AlterableConfig as LegacyConfig
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as LegacyResource
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def described(kind: ResourceType, name: str, *keys: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )


def changed(kind: ResourceType, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=0, value=value)],
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def test_configs_are_changed_and_described_in_every_version(tmp_path: Path):
    async def use(admin: Admin) -> None:
        await create(admin, "a")
        for version in versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            request = changed(ResourceType.TOPIC, "a", "retention.ms", str(version + 5))
            answer = await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version)
            assert (answer.responses[0].error_code, answer.responses[0].error_message) == (0, None)
        for version in versions(ApiKey.DESCRIBE_CONFIGS):
            asked = described(ResourceType.TOPIC, "a", "retention.ms")
            (result,) = (await admin(ApiKey.DESCRIBE_CONFIGS, asked, version)).results
            (entry,) = result.configs
            assert (entry.value, entry.config_source) == ("6", 1)
            assert [s.name for s in entry.synonyms][:1] == ["retention.ms"]
            assert bool(entry.documentation) == (version >= 3)
        for version in versions(ApiKey.ALTER_CONFIGS):
            only = LegacyResource(
                resource_type=ResourceType.TOPIC,
                resource_name="a",
                configs=[LegacyConfig(name="segment.ms", value=str(version + 9))],
            )
            legacy = AlterConfigsRequest(resources=[only])
            answer = await admin(ApiKey.ALTER_CONFIGS, legacy, version)
            assert answer.responses[0].error_code == 0
        assert admin.node.metadata.image.topic_config("a") == {"segment.ms": "11"}

    with_admin(tmp_path, use)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.UNKNOWN, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "1", ErrorCode.NONE),
        (ResourceType.BROKER, "", ErrorCode.NONE),
        (ResourceType.GROUP, "g", ErrorCode.NONE),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.NONE),
    ],
)
def test_every_kind_of_resource_is_described_or_refused(
    tmp_path: Path, kind: ResourceType, name: str, code: ErrorCode
):
    async def use(admin: Admin) -> None:
        (result,) = (await admin(ApiKey.DESCRIBE_CONFIGS, described(kind, name))).results
        assert result.error_code == code
        silent = code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert (result.error_message == "") == silent

    with_admin(tmp_path, use)


def test_log_levels_change_at_run_time_and_are_described(tmp_path: Path):
    logger = logging.getLogger("ottla.some.concern")

    async def use(admin: Admin) -> None:
        kind = ResourceType.BROKER_LOGGER
        request = changed(kind, "1", logger.name, "DEBUG")
        answer = await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        assert answer.responses[0].error_code == 0
        assert logger.level == logging.DEBUG
        asked = described(kind, "1", logger.name)
        (result,) = (await admin(ApiKey.DESCRIBE_CONFIGS, asked)).results
        assert [(c.name, c.value, c.config_source) for c in result.configs] == [
            (logger.name, "DEBUG", 6)
        ]
        for bad in (
            changed(kind, "1", "no.such.logger", "DEBUG"),
            changed(kind, "1", logger.name, "LOUD"),
            changed(kind, "2", logger.name, "INFO"),
        ):
            answer = await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, bad)
            assert answer.responses[0].error_code != 0
        assert logger.level == logging.DEBUG
        delete = changed(kind, "1", logger.name, "")
        delete.resources[0].configs[0].config_operation = 1
        await admin(ApiKey.INCREMENTAL_ALTER_CONFIGS, delete)
        assert logger.level == logging.NOTSET

    with_admin(tmp_path, use)
