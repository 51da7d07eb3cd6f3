"""Admin calls for configs: of topics, brokers, the cluster's defaults, groups and loggers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import error_of
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.network.connection import Connection

DOCUMENTATION_FROM = 3


class ResourceType(IntEnum):
    """The kinds of resource that have configs, with the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """The resource that configs belong to: ConfigResource(ResourceType.TOPIC, "payments").

    A broker is named by its id as text; the empty name means the default of all brokers.
    """

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    """Reset to the default."""
    APPEND = 2
    """Add to a config that is a list."""
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    operation: AlterOperation
    name: str
    value: str | None = None


Changes = Mapping[str, str | None] | Sequence[ConfigChange]
"""Either names and values, where None resets to the default, or a list of `ConfigChange`, which
can also append to lists."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    """None if it is not set or is sensitive."""
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class ConfigAdmin:
    _link: AdminLink

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, documentation: bool = False
    ) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
        """Return all configs of each resource, with the source of each value.

        >>> payments = ConfigResource(ResourceType.TOPIC, "payments")
        >>> settings = (await admin.describe_configs([payments]))[payments]
        """
        wanted = list(dict.fromkeys(resources))

        async def ask(owner: int | None, own: list[ConfigResource]) -> Answers:
            async def attempt() -> Answers:
                return await _describe(await self._config_owner(owner), own, documentation)

            return await self._link.cluster.retrying(attempt)

        parts = await asyncio.gather(
            *(ask(*item) for item in (await self._config_owners(wanted)).items())
        )
        found = {resource: entries for part in parts for resource, entries in part.items()}
        return {resource: found[resource] for resource in wanted}

    async def describe_config(
        self, resource: ConfigResource, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return the configs of one resource, sorted by name."""
        found = (await self.describe_configs([resource], documentation=documentation))[resource]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Changes], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change the named configs of each resource and leave its other configs as they are.

        >>> payments = ConfigResource(ResourceType.TOPIC, "payments")
        >>> await admin.alter_configs({payments: {"retention.ms": "3600000"}})
        """

        async def ask(owner: int | None, own: list[ConfigResource]) -> Any:
            request = _alteration({resource: changes[resource] for resource in own}, validate_only)

            async def attempt() -> Any:
                return await (await self._config_owner(owner)).request(request)

            return await self._link.cluster.retrying(attempt, resend=False)

        owners = await self._config_owners(list(changes))
        found: dict[ConfigResource, KafkaError | None] = {}
        for response in await asyncio.gather(*(ask(*item) for item in owners.items())):
            for one in response.responses:
                resource = ConfigResource(ResourceType(one.resource_type), one.resource_name)
                found[resource] = error_of(one.error_code, one.error_message)
        return {resource: found[resource] for resource in changes}

    async def alter_config(
        self, resource: ConfigResource, changes: Changes, *, validate_only: bool = False
    ) -> None:
        """Change configs of one resource, or raise its error."""
        outcome = await self.alter_configs({resource: changes}, validate_only=validate_only)
        if (error := outcome[resource]) is not None:
            raise error

    async def _config_owners(
        self, resources: list[ConfigResource]
    ) -> dict[int | None, list[ConfigResource]]:
        """Group resources by the broker to ask: only a broker itself knows its own configs. The key
        None stands for all other resources."""
        owners: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
            owner = await self._broker_named(resource.name) if own and resource.name else None
            owners.setdefault(owner, []).append(resource)
        return owners

    async def _broker_named(self, name: str) -> int:
        await self._link.cluster.refresh(())
        brokers = self._link.cluster.view.brokers
        if not name.isdigit() or int(name) not in brokers:
            known = ", ".join(str(node) for node in sorted(brokers))
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}; there are: {known}"
            )
        return int(name)

    async def _config_owner(self, node_id: int | None) -> Connection:
        if node_id is None:
            return await self._link.cluster.controller()
        return await self._link.cluster.broker(node_id)


Answers = dict[ConfigResource, list[ConfigEntry] | KafkaError]


async def _describe(
    connection: Connection, resources: list[ConfigResource], documentation: bool
) -> Answers:
    from ottla.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in resources
        ]
    )
    if (version := connection.version_of(request)) >= DOCUMENTATION_FROM:
        request.include_documentation = documentation
    response = await connection.request(request, version=version)
    return {
        ConfigResource(ResourceType(result.resource_type), result.resource_name): error_of(
            result.error_code, result.error_message
        )
        or sorted(map(_entry, result.configs), key=lambda entry: entry.name)
        for result in response.results
    }


def _entry(config: Any) -> ConfigEntry:
    known = config.config_source in ConfigSource._value2member_map_
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source) if known else ConfigSource.UNKNOWN,
        config.read_only,
        config.is_sensitive,
        config.documentation,
    )


def _alteration(changes: Mapping[ConfigResource, Changes], validate_only: bool) -> Any:
    from ottla.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    AlterableConfig(name=name, config_operation=operation, value=value)
                    for operation, name, value in _listed(own)
                ],
            )
            for resource, own in changes.items()
        ],
        validate_only=validate_only,
    )


def _listed(changes: Changes) -> Sequence[ConfigChange]:
    if not isinstance(changes, Mapping):
        return changes
    return [
        ConfigChange(AlterOperation.DELETE if value is None else AlterOperation.SET, name, value)
        for name, value in changes.items()
    ]
